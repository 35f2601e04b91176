//! Ways to go about one plan. None is best for every fleet, so small plans are made in all of them and the cheapest is
//! kept; large ones in those that are worth their time. What they have in common is done once (`outset`).

use std::cmp::Reverse;

use super::Solver;

/// In what order pods queue and what a new launch is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Strategy {
    pub(super) order: QueueOrder,
    pub(super) load: LoadRule,
}

/// Who goes first among pods of one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueOrder {
    /// The largest.
    Size,
    /// Those that need the most hosts, whatever their size: others can share what they need anyway.
    Hosts,
}

/// For what a launch is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadRule {
    /// One pod; others join while that pays.
    One,
    /// One pod; others join where they fit beside it.
    Fit,
    /// As many pods of one shape as make each cheapest.
    Own,
    /// Its part in the cheapest fleet for all that waits.
    Fleet,
}

/// Manners that every plan is made in.
pub(super) const ALWAYS: [Strategy; 2] = [
    Strategy { order: QueueOrder::Size, load: LoadRule::Own },
    Strategy { order: QueueOrder::Size, load: LoadRule::One },
];

/// Manners for plans of few pods.
const FEW_PODS: [Strategy; 4] = [
    Strategy { order: QueueOrder::Hosts, load: LoadRule::Own },
    Strategy { order: QueueOrder::Hosts, load: LoadRule::One },
    Strategy { order: QueueOrder::Size, load: LoadRule::Fit },
    Strategy { order: QueueOrder::Size, load: LoadRule::Fleet },
];

/// Manners for plans of many pods but few shapes.
const FEW_SHAPES: [Strategy; 1] = [Strategy { order: QueueOrder::Size, load: LoadRule::Fleet }];

/// Up to so many pods on launches, and pods times shapes, are few pods.
const MOST_PODS: (usize, usize) = (2_000, 400_000);
/// Up to so many are few shapes.
const MOST_SHAPES: usize = 120;

/// In which more strategies a plan is worth being made that launches nodes for so many pods of so many shapes, or leaves them
/// without a place. Many pods of one shape have but one fleet; few pods are no exception, for what becomes of them must not
/// hang on whether strangers wait too.
pub(super) fn more(pods: usize, shapes: usize) -> &'static [Strategy] {
    let few_pods = pods <= MOST_PODS.0 && pods.saturating_mul(shapes) <= MOST_PODS.1;
    match shapes {
        0 => &[],
        _ if few_pods => &FEW_PODS,
        2..=MOST_SHAPES => &FEW_SHAPES,
        _ => &[],
    }
}

/// What speaks for a solution, less is better: pods without a place, what its launches count for, their number.
pub(super) type Score = (usize, i64, usize);

impl Solver<'_> {
    /// What speaks for this solution.
    pub(super) fn score(&self) -> Score {
        let placed = self.order.len();
        let cost = self.claims.list.iter().map(|claim| self.frames.get(claim.frame).entries[claim.entry].cost);
        (self.snapshot.pods.len() - placed, cost.sum(), self.claims.list.len())
    }

    /// How many hosts a shape's pods need at least, for the order of the queue.
    pub(super) fn hosts_needed(&self, shape: usize, pods: usize) -> Reverse<usize> {
        if self.strategy.order == QueueOrder::Size {
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
