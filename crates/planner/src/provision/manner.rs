//! Ways to go about one plan. None is best for every fleet, so small plans are made in all of them and the cheapest is
//! kept; large ones, where the differences even out, in the first few.

use std::cmp::Reverse;

use super::Solver;

/// In what order pods queue and what a new launch is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    pub(super) order: Order,
    pub(super) load: Load,
}

/// Who goes first among pods of one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The largest.
    Size,
    /// Those that need the most hosts, whatever their size: others can share what they need anyway.
    Hosts,
}

/// For what a launch is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// One pod; others join while that pays.
    One,
    /// As many pods of one shape as make each cheapest.
    Own,
    /// Whatever waits and fills a type best.
    Mixed,
}

/// All manners, the quickest first.
pub(super) const MANNERS: [Manner; 6] = [
    Manner { order: Order::Size, load: Load::Own },
    Manner { order: Order::Size, load: Load::One },
    Manner { order: Order::Hosts, load: Load::Mixed },
    Manner { order: Order::Size, load: Load::Mixed },
    Manner { order: Order::Hosts, load: Load::Own },
    Manner { order: Order::Hosts, load: Load::One },
];

/// How many of them every plan is made in.
pub(super) const ALWAYS: usize = 2;

/// Up to so many pods on launches, and pods times shapes, the others are tried too.
const SMALL: (usize, usize) = (2_000, 400_000);

/// What speaks for a solution, less is better: pods without a place, what its launches count for, their number.
pub(super) type Score = (usize, i64, usize);

/// Whether a plan that launches nodes for so many pods is worth the other manners.
pub(super) fn is_worth_more(launched: usize, shapes: usize) -> bool {
    launched > 0 && launched <= SMALL.0 && launched.saturating_mul(shapes) <= SMALL.1
}

impl Solver<'_> {
    /// What speaks for this solution.
    pub(super) fn score(&self) -> Score {
        let placed = self.order.len();
        let cost = self.claims.list.iter().map(|claim| self.frames.get(claim.frame).entries[claim.entry].cost);
        (self.snapshot.pods.len() - placed, cost.sum(), self.claims.list.len())
    }

    /// How many hosts a shape's pods need at least, for the order of the queue.
    pub(super) fn hosts_needed(&self, shape: usize, pods: usize) -> Reverse<usize> {
        if self.manner.order == Order::Size {
            return Reverse(0);
        }
        let demand = &self.demands[shape];
        let each =
            if demand.shape.ports.is_empty() { self.topology.host_room(&demand.levels[0].rules, None) } else { 1 };
        Reverse(if each == usize::MAX { 0 } else { pods.div_ceil(each.max(1)) })
    }

    /// Lets launches go back to the cheapest type that holds their pods in fact, without seats that nobody took.
    pub(super) fn trim(&mut self) {
        for position in 0..self.claims.list.len() {
            let claim = &self.claims.list[position];
            if claim.seats.iter().all(|(_, kept)| *kept == 0) {
                continue;
            }
            let (_, used) = self.seated(claim);
            let entry = self.first_holding(claim.frame, 0, &used, &claim.ports, &claim.held);
            let claim = &mut self.claims.list[position];
            claim.entry = entry.unwrap_or(claim.entry);
            claim.used = used.into_vec();
            claim.seats.clear();
        }
    }
}
