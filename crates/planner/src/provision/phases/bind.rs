//! Model of kube-scheduler for simulated clusters: it binds pending pods one after another, without a plan. Each pod goes to the node
//! with the greatest free share of CPU and memory, among the nodes that satisfy most of its preferences. A pod with a nomination goes to
//! its node, whose capacity is reserved for it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::host_minimum::rely_on_present_pods;
use super::queue::keep_nominations;
use crate::provision::demand::Demand;
use crate::provision::demand::capacity_split::SplitPart;
use crate::provision::topology::KnownDomains;
use crate::provision::{Attempt, PlanInput, PodKind, PodPlacement, Solver};
use crate::{Node, Nomination, PlacementReason, Pod, Resources, Snapshot, Stage};

/// Returns the pods that kube-scheduler would bind now, with their nodes, in its order: priority, then age.
pub(crate) fn bindings(snapshot: &Snapshot) -> Vec<Nomination> {
    let waits = |pod: &Pod| pod.leaving_node.is_none() && pod.holder.is_none();
    let mut queue: Vec<usize> = (0..snapshot.pods.len()).filter(|pod| waits(&snapshot.pods[*pod])).collect();
    if queue.is_empty() {
        return Vec::new();
    }
    queue.sort_by_key(|position| {
        let pod = &snapshot.pods[*position];
        (Reverse(snapshot.shapes[pod.shape].priority), pod.created, &pod.uid)
    });
    let up: BTreeSet<&str> =
        snapshot.nodes.iter().filter(|node| node.stage == Stage::Initialized).map(|node| node.name.as_str()).collect();
    let present = as_seen_by_kube_scheduler(snapshot, &up);
    let parts: Arc<[SplitPart]> = vec![SplitPart::Free; snapshot.pods.len()].into();
    let mut solver = Solver::new(&PlanInput::new(&present).with_parts(parts), &KnownDomains::default());
    rely_on_present_pods(&mut solver);
    keep_nominations(&mut solver, PodKind::Real);
    queue.retain(|pod| solver.outcome.verdicts[*pod].is_none());
    for pod in queue {
        if let Some((attempt, node)) = best_node(&solver, pod) {
            solver.record(attempt, PodPlacement::Existing(node), &[pod], PlacementReason::Room);
        }
    }
    solver.outcome.nominations
}

/// Returns the snapshot without what kube-scheduler does not know: NodePools, the split of a workload over capacity types, and
/// nominations to nodes that are not up or of pods that still run elsewhere.
fn as_seen_by_kube_scheduler(snapshot: &Snapshot, up: &BTreeSet<&str>) -> Snapshot {
    let mut present = Snapshot { pools: Vec::new(), catalogues: Vec::new(), ..snapshot.clone() };
    for pod in &mut present.pods {
        pod.mix = None;
        let waits = pod.leaving_node.is_none();
        pod.nominated = pod.nominated.take().filter(|node| waits && up.contains(node.as_str()));
    }
    present
}

/// Returns the best node for a pod, with its preferences that are satisfied there.
fn best_node(solver: &Solver<'_>, pod: usize) -> Option<(Attempt, usize)> {
    let shape = solver.problem.demand_of[pod];
    let demand = &solver.problem.demands[shape];
    let is_up = |node: &usize| solver.existing.list[*node].node.stage == Stage::Initialized;
    let has_room = |node: &usize| solver.existing.times(*node, demand) > 0;
    let mut nodes: Vec<usize> = (0..solver.existing.list.len()).filter(is_up).filter(has_room).collect();
    nodes.sort_by_cached_key(|node| (Reverse(free_share(solver, *node, demand)), *node));
    (0..demand.levels.len()).find_map(|level| {
        let (sets, topology) = (&solver.problem.requirement_sets, &solver.topology);
        let admits = |node: &&usize| solver.existing.admits(**node, demand, &demand.levels[level], pod, sets, topology);
        Some((Attempt { shape, level }, *nodes.iter().find(admits)?))
    })
}

/// Returns the mean share of CPU and memory that remains free with the pod, in thousandths.
fn free_share(solver: &Solver<'_>, node: usize, demand: &Demand<'_>) -> i64 {
    let Some(left) = solver.existing.left(node) else { return 0 };
    let own: &Node = solver.existing.list[node].node;
    let share = |name| {
        let dimension = solver.problem.input.dimensions.of_resource(name)?;
        let free = left[dimension] - demand.requests[dimension];
        Some(free.saturating_mul(1000) / own.allocatable.get(name).max(1))
    };
    [Resources::CPU, Resources::MEMORY].into_iter().filter_map(share).sum::<i64>() / 2
}
