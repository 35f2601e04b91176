//! Final attempt for pods with spread constraints: existing nodes, evaluated as kube-scheduler evaluates them now.
//!
//! A spread counts every domain that NodePools could open, because launches of this plan may open it. kube-scheduler counts
//! only existing domains, so it may bind a pod for which the stricter rule finds no place. Nothing is launched afterwards:
//! CapacityBuffer pods that need a new node receive one from the next plan.

use crate::PlacementReason;

use super::finish::launches_by_now;
use crate::provision::capacity::node_template::TemplateId;
use crate::provision::daemon_overhead::confirm_daemons;
use crate::provision::demand::Demand;
use crate::provision::topology::current_domains::{look_ahead, look_at_present};
use crate::provision::topology::{Domain, RuleKind};
use crate::provision::{Attempt, PodPlacement, PodRun, Solver};

/// Repeats rounds over the queue until a round places no pod. Tries pods without a spread constraint only after others were
/// placed.
pub(in crate::provision) fn place_at_present(solver: &mut Solver<'_>, queue: &mut Vec<PodRun>) {
    if !queue.iter().any(|run| is_spread(&solver.problem.demands[run.shape])) {
        return;
    }
    confirm_daemons(solver);
    let launches = launches_by_now(solver);
    let mut has_moved = false;
    loop {
        let mut placed = 0;
        for run in queue.iter_mut() {
            if !has_moved && !is_spread(&solver.problem.demands[run.shape]) {
                continue;
            }
            let count = place_run_at_present(solver, run, &launches);
            run.pods.drain(..count);
            placed += count;
        }
        queue.retain(|run| !run.pods.is_empty());
        has_moved = placed > 0;
        if !has_moved {
            return;
        }
    }
}

fn is_spread(demand: &Demand<'_>) -> bool {
    demand
        .levels
        .last()
        .is_some_and(|level| level.rules.iter().any(|rule| matches!(rule.kind, RuleKind::Spread { .. })))
}

fn place_run_at_present(solver: &mut Solver<'_>, run: &PodRun, launches: &[(TemplateId, Domain)]) -> usize {
    let mut placed = 0;
    while let Some(pod) = run.pods.get(placed).filter(|_| !solver.is_spent()) {
        let Some((attempt, node)) = node_at_present(solver, run.shape, *pod, launches) else { break };
        solver.record(attempt, PodPlacement::Existing(node), &[*pod], PlacementReason::Room);
        solver.progress.is_closed = true;
        placed += 1;
    }
    placed
}

fn node_at_present(
    solver: &mut Solver<'_>,
    shape: usize,
    pod: usize,
    launches: &[(TemplateId, Domain)],
) -> Option<(Attempt, usize)> {
    for level in 0..solver.problem.demands[shape].levels.len() {
        solver.progress.steps += solver.existing.list.len() as u64;
        let demand = &solver.problem.demands[shape];
        let own = &demand.levels[level];
        look_at_present(
            &mut solver.topology,
            &own.rules,
            launches,
            &solver.capacity.templates,
            &solver.problem.requirement_sets,
        );
        let admits = |node: &usize| {
            solver.existing.admits(*node, demand, own, pod, &solver.problem.requirement_sets, &solver.topology)
        };
        let found = (0..solver.existing.list.len()).find(admits);
        look_ahead(&mut solver.topology, &own.rules);
        if let Some(node) = found {
            return Some((Attempt { shape, level }, node));
        }
    }
    None
}
