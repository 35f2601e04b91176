//! The outset of a plan: pods go to nodes that are there, before anything is launched.
//!
//! In all strategies that queue by size they do so in the order of their turns, up to the first who finds no node that is all
//! he asks for. Only then does a strategy have its say, so plans go thus far once for all of them; most that launch nothing
//! are over then. A fleet is planned when the nodes that are there are full.

use std::cmp::Reverse;

use super::{Attempt, PodKind, PodPlacement, PodRun, Solver};
use crate::PlacementReason;

impl Solver<'_> {
    /// Goes as far as strategies do not matter; whether nobody is left without a place.
    pub(super) fn fill_existing_only(&mut self) -> bool {
        self.place_nominated();
        self.fill_in_turn() && {
            self.take_up(PodKind::Buffer);
            self.fill_in_turn()
        }
    }

    /// Puts pods on nodes in the order of the queue until one of them finds none; whether nobody is left.
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

    /// Puts pods on the nodes that are there, as many as go without dropping a preference: a fleet is planned for the rest.
    /// Among pods of one priority those go first that the fewest nodes suit, so that others do not take these from them.
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

    /// Puts a run's pods on nodes as they are, without dropping a preference: how many, counted from the first.
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
