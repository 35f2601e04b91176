//! Queue of pods without a place, and nominations of earlier plans.

use std::cmp::Reverse;

use crate::{PlacementReason, Resources};

use super::host_minimum::rely_on_present_pods;
use super::static_pools::keep_static_pools;
use crate::provision::demand::Demand;
use crate::provision::demand::capacity_split::SplitPart;
use crate::provision::select_best::strategy::QueueOrder;
use crate::provision::{Attempt, PodKind, PodPlacement, PodRun, Solver};

pub(in crate::provision) fn place_nominated(solver: &mut Solver<'_>) {
    keep_static_pools(solver);
    rely_on_present_pods(solver);
    take_up(solver, PodKind::Real);
}

/// Keeps the nominations of pods of one kind and queues the others.
pub(in crate::provision) fn take_up(solver: &mut Solver<'_>, kind: PodKind) {
    keep_nominations(solver, kind);
    solver.progress.queue = queue(solver, kind);
    solver.progress.kind = Some(kind);
}

/// Returns pods without a place by shape, in placement order: priority, CPU and memory, the greatest first; then the shape
/// with the older oldest pod, but a workload's on-demand base before equal pods. Shapes that depend on the launches of others
/// come last.
fn queue(solver: &Solver<'_>, kind: PodKind) -> Vec<PodRun> {
    let pods = &solver.problem.input.snapshot.pods;
    let mut runs: Vec<PodRun> =
        (0..solver.problem.demands.len()).map(|shape| PodRun { shape, pods: Vec::new() }).collect();
    let waiting = |pod: &usize| solver.outcome.verdicts[*pod].is_none() && PodKind::from_pod(&pods[*pod]) == kind;
    (0..pods.len()).filter(waiting).for_each(|pod| runs[solver.problem.demand_of[pod]].pods.push(pod));
    runs.retain(|run| !run.pods.is_empty());
    let age = |pod: usize| (pods[pod].created, pods[pod].uid.as_str());
    for run in &mut runs {
        run.pods.sort_by_key(|pod| age(*pod));
    }
    // Pods of an on-demand base cannot use spot instead of the capacity that equal pods would take.
    let may_use_spot = |pod: usize| solver.problem.input.parts[pod] != SplitPart::Base;
    let first = |run: &PodRun| run.pods.first().map(|pod| (may_use_spot(*pod), age(*pod)));
    runs.sort_by_cached_key(|run| (queue_key(solver, run), first(run)));
    runs
}

pub(in crate::provision) fn queue_key(
    solver: &Solver<'_>,
    run: &PodRun,
) -> (bool, Reverse<i32>, Reverse<usize>, i64, i64) {
    let Demand { shape, late, .. } = &solver.problem.demands[run.shape];
    let hosts = hosts_needed(solver, run.shape, run.pods.len());
    let (cpu, memory) = (shape.requests.get(Resources::CPU), shape.requests.get(Resources::MEMORY));
    (*late, Reverse(shape.priority), hosts, -cpu, -memory)
}

/// Returns the minimum number of hosts for a shape's pods, for the order of the queue.
fn hosts_needed(solver: &Solver<'_>, shape: usize, pods: usize) -> Reverse<usize> {
    if solver.progress.strategy.order == QueueOrder::Size {
        return Reverse(0);
    }
    let demand = &solver.problem.demands[shape];
    let each =
        if demand.shape.ports.is_empty() { solver.topology.host_slots(&demand.levels[0].rules, None) } else { 1 };
    Reverse(if each == usize::MAX { 0 } else { pods.div_ceil(each.max(1)) })
}

pub(in crate::provision) fn keep_nominations(solver: &mut Solver<'_>, kind: PodKind) {
    if solver.problem.input.snapshot.pods.iter().all(|pod| pod.nominated.is_none()) {
        return;
    }
    let mut nominated: Vec<(usize, usize)> = queue(solver, kind)
        .into_iter()
        .flat_map(|run| run.pods)
        .filter_map(|pod| {
            Some((pod, solver.existing.named(solver.problem.input.snapshot.pods[pod].nominated.as_deref()?)?))
        })
        .collect();
    // Of simultaneous nominations, those of pods with topology rules come first: other pods count for them, but not the
    // reverse.
    let lax = |pod: usize| {
        solver.problem.demands[solver.problem.demand_of[pod]].levels.iter().any(|level| level.rules.is_empty())
    };
    nominated.sort_by_key(|(pod, _)| (solver.problem.input.snapshot.pods[*pod].nominated_after, lax(*pod)));
    // One nomination may satisfy what another requires: none is dropped before all others are kept.
    let mut before = usize::MAX;
    while nominated.len() < before {
        before = nominated.len();
        nominated.retain(|(pod, node)| !keep_nomination(solver, *pod, *node));
    }
}

/// Places a pod on its nominated node if it still fits there; reports whether it does.
fn keep_nomination(solver: &mut Solver<'_>, pod: usize, node: usize) -> bool {
    let shape = solver.problem.demand_of[pod];
    let demand = &solver.problem.demands[shape];
    let admits = |level: &usize| {
        let level = &demand.levels[*level];
        solver.existing.admits(node, demand, level, pod, &solver.problem.requirement_sets, &solver.topology)
    };
    let level = (0..demand.levels.len()).find(admits);
    if let Some(level) = level {
        solver.record(Attempt { shape, level }, PodPlacement::Existing(node), &[pod], PlacementReason::Promised);
    }
    level.is_some()
}
