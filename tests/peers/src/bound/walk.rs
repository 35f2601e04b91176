//! Depth-first search for the best filling of a node, with a bound for all unexplored branches.
//!
//! Items are tried in their order, the greatest count of each first. A branch that the bound excludes is skipped. When the
//! search runs out of steps, the bound of its unexplored branches still holds.

use super::Item;
use super::filling::{Candidate, Filling, folded, most};

/// Least gain over the best value that a branch must promise to be explored, as a share of that value.
const GAIN: f64 = 1e-7;

/// One depth-first search.
pub(super) struct Walk<'a> {
    order: &'a [Candidate],
    items: &'a [Item],
    allocatable: &'a [f64],
    weights: &'a [f64],
    steps: u64,
    counts: Vec<(usize, f64)>,
    best: Filling,
    enough: f64,
    missed: f64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(order: &'a [Candidate], items: &'a [Item], allocatable: &'a [f64], weights: &'a [f64]) -> Self {
        let (counts, best) = (Vec::new(), Filling::default());
        Self { order, items, allocatable, weights, steps: 0, counts, best, enough: 0.0, missed: 0.0 }
    }

    /// Returns the best filling that `steps` steps find, including the known one. Branches that cannot exceed `enough` are not
    /// explored.
    pub(super) fn best(mut self, known: Filling, enough: f64, steps: u64) -> Filling {
        let at_most = known.at_most;
        (self.best, self.enough, self.steps) = (known, enough, steps);
        self.explore(0, 0.0, &mut self.allocatable.to_vec());
        let unseen = self.missed.max(self.enough);
        self.best.at_most = at_most.min(self.best.worth.max(unseen) * (1.0 + 2.0 * GAIN));
        self.best
    }

    /// Explores all continuations from the candidate `next` with the remaining capacity.
    fn explore(&mut self, next: usize, worth: f64, left: &mut [f64]) {
        if worth > self.best.worth {
            self.best.worth = worth;
            self.best.counts.clone_from(&self.counts);
        }
        let Some(candidate) = self.order.get(next) else { return };
        let promised = worth + self.bound(next, left);
        if promised <= self.enough.max(self.best.worth * (1.0 + GAIN)) {
            return;
        }
        if self.steps == 0 {
            self.missed = self.missed.max(promised);
            return;
        }
        self.steps -= 1;
        let item = &self.items[candidate.item];
        let mut count = most(item, candidate.most, left);
        self.take(item, left, count);
        loop {
            if count > 0.0 {
                self.counts.push((candidate.item, count));
            }
            self.explore(next + 1, worth + count * candidate.worth, left);
            if count == 0.0 {
                return;
            }
            self.counts.pop();
            self.take(item, left, -1.0);
            count -= 1.0;
        }
    }

    fn take(&self, item: &Item, left: &mut [f64], count: f64) {
        for (left, need) in left.iter_mut().zip(&item.needs) {
            *left -= need * count;
        }
    }

    /// Returns the largest value that can be added: fractions of items in the folded node, none more often than it fits alone.
    fn bound(&self, next: usize, left: &[f64]) -> f64 {
        let mut size = folded(self.weights, left, self.allocatable);
        let mut worth = 0.0;
        for candidate in &self.order[next..] {
            let fits = most(&self.items[candidate.item], candidate.most, left);
            let count = if candidate.size > 0.0 { fits.min(size / candidate.size) } else { fits };
            worth += count * candidate.worth;
            size -= count * candidate.size;
            if size <= 1e-12 {
                break;
            }
        }
        worth
    }
}
