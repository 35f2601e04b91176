//! First part of a plan: pods are placed on existing nodes before anything is launched.
//!
//! All strategies that order pods by size place them in queue order, up to the first pod whose preferences no existing node
//! satisfies. Strategies differ only after that point, so this part runs once for all of them. Most plans without launches end
//! here. A fleet is planned when existing nodes are full.

use std::cmp::Reverse;

use crate::PlacementReason;

use super::queue::{place_nominated, take_up};
use crate::provision::{Attempt, PodKind, PodPlacement, PodRun, Solver};

/// Places pods up to the point where strategies differ; reports whether every pod has a place.
pub(in crate::provision) fn fill_existing_only(solver: &mut Solver<'_>) -> bool {
    place_nominated(solver);
    fill_in_queue_order(solver) && {
        take_up(solver, PodKind::Virtual);
        fill_in_queue_order(solver)
    }
}

/// Places pods on existing nodes in queue order until one of them finds no node; reports whether every pod has a place.
fn fill_in_queue_order(solver: &mut Solver<'_>) -> bool {
    let mut queue = std::mem::take(&mut solver.progress.queue);
    for run in &mut queue {
        let placed = fill_existing_nodes_with(solver, run);
        run.pods.drain(..placed);
        if !run.pods.is_empty() {
            break;
        }
    }
    queue.retain(|run| !run.pods.is_empty());
    solver.progress.queue = queue;
    solver.progress.queue.is_empty()
}

/// Places as many pods on existing nodes as possible without dropping a preference; a fleet is planned for the rest. Among
/// pods of one priority, those with the fewest suitable nodes come first, so that other pods do not take these nodes.
pub(in crate::provision) fn fill_existing_nodes(solver: &mut Solver<'_>, queue: &mut Vec<PodRun>) {
    let mut attempts: Vec<usize> =
        (0..queue.len()).filter(|run| !solver.problem.demands[queue[*run].shape].late).collect();
    attempts.sort_by_cached_key(|run| {
        let demand = &solver.problem.demands[queue[*run].shape];
        let suitable =
            solver.existing.count_suitable(&demand.levels[0], &solver.problem.requirement_sets, &solver.topology);
        (Reverse(demand.shape.priority), suitable)
    });
    for run in attempts {
        let placed = fill_existing_nodes_with(solver, &queue[run]);
        queue[run].pods.drain(..placed);
    }
    queue.retain(|run| !run.pods.is_empty());
}

/// Places a run's pods on existing nodes without dropping a preference; returns how many, counted from the first.
fn fill_existing_nodes_with(solver: &mut Solver<'_>, run: &PodRun) -> usize {
    let attempt = Attempt { shape: run.shape, level: 0 };
    let mut placed = 0;
    while placed < run.pods.len()
        && !solver.is_spent()
        && let Some((node, count)) = solver.find_existing(attempt, &run.pods[placed..])
    {
        solver.record(attempt, PodPlacement::Existing(node), &run.pods[placed..placed + count], PlacementReason::Room);
        placed += count;
    }
    placed
}
