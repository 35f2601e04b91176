//! First part of a plan: pods are placed on existing nodes before anything is launched.
//!
//! All strategies that order pods by size place them in queue order, up to the first pod whose preferences no existing node
//! satisfies. Strategies differ only after that point, so this part runs once for all of them. Most plans without launches end
//! here. A fleet is planned when existing nodes are full.

use std::cmp::Reverse;

use super::{Attempt, PodKind, PodPlacement, PodRun, Solver};
use crate::PlacementReason;

impl Solver<'_> {
    /// Places pods up to the point where strategies differ; reports whether every pod has a place.
    pub(super) fn fill_existing_only(&mut self) -> bool {
        self.place_nominated();
        self.fill_in_turn() && {
            self.take_up(PodKind::Buffer);
            self.fill_in_turn()
        }
    }

    /// Places pods on existing nodes in queue order until one of them finds no node; reports whether every pod has a place.
    fn fill_in_turn(&mut self) -> bool {
        let mut queue = std::mem::take(&mut self.queue);
        for run in &mut queue {
            let placed = self.fill_existing_nodes_with(run);
            run.pods.drain(..placed);
            if !run.pods.is_empty() {
                break;
            }
        }
        queue.retain(|run| !run.pods.is_empty());
        self.queue = queue;
        self.queue.is_empty()
    }

    /// Places as many pods on existing nodes as possible without dropping a preference; a fleet is planned for the rest. Among
    /// pods of one priority, those with the fewest suitable nodes come first, so that other pods do not take these nodes.
    pub(super) fn fill_existing_nodes(&mut self, queue: &mut Vec<PodRun>) {
        let mut turns: Vec<usize> = (0..queue.len()).filter(|run| !self.demands[queue[*run].shape].late).collect();
        turns.sort_by_cached_key(|run| {
            let demand = &self.demands[queue[*run].shape];
            let suitable = self.rooms.count_suitable(&demand.levels[0], &self.wants, &self.topology);
            (Reverse(demand.shape.priority), suitable)
        });
        for run in turns {
            let placed = self.fill_existing_nodes_with(&queue[run]);
            queue[run].pods.drain(..placed);
        }
        queue.retain(|run| !run.pods.is_empty());
    }

    /// Places a run's pods on existing nodes without dropping a preference; returns how many, counted from the first.
    fn fill_existing_nodes_with(&mut self, run: &PodRun) -> usize {
        let turn = Attempt { shape: run.shape, level: 0 };
        let mut placed = 0;
        while placed < run.pods.len()
            && !self.is_spent()
            && let Some((room, count)) = self.find_room(turn, &run.pods[placed..])
        {
            self.record(turn, PodPlacement::Room(room), &run.pods[placed..placed + count], PlacementReason::Room);
            placed += count;
        }
        placed
    }
}
