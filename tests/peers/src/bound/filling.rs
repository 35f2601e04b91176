//! The most valuable way to fill one machine: a knapsack with several dimensions, searched depth first.
//!
//! All dimensions are folded into one by weights; whoever fits in every dimension fits into the folded one, so filling
//! that one with fractions of items bounds the worth from above. The weights that make this bound least are kept from
//! round to round. The search tries items in the order of worth for folded size, the most of each first, and leaves a
//! branch that the bound rules out. Where it runs out of steps, the bound of what it did not look at still holds.

use super::{Item, Machine};

/// A filling with a proof.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filling {
    /// Items by position and how many.
    pub counts: Vec<(usize, f64)>,
    /// What they are worth.
    pub worth: f64,
    /// No filling is worth more.
    pub at_most: f64,
}

/// The search for one machine.
pub(super) struct Search<'a> {
    machine: &'a Machine,
    items: &'a [Item],
    weights: Vec<f64>,
}

/// An item in the order of the search.
struct Candidate {
    item: usize,
    worth: f64,
    size: f64,
    most: f64,
}

/// How much of the best worth a branch must promise more to be looked at.
const GAIN: f64 = 1e-7;

impl<'a> Search<'a> {
    pub(super) fn new(machine: &'a Machine, items: &'a [Item]) -> Self {
        let dimensions = machine.room.len();
        Self { machine, items, weights: vec![1.0 / dimensions as f64; dimensions] }
    }

    /// The best filling that so many steps find.
    pub(super) fn best(&mut self, worths: &[f64], steps: u64) -> Filling {
        self.tune(worths);
        let order = self.candidates(worths, &self.weights);
        let mut walk = Walk {
            order: &order,
            items: self.items,
            room: &self.machine.room,
            weights: &self.weights,
            steps,
            counts: Vec::new(),
            best: Filling::default(),
            missed: 0.0,
        };
        walk.explore(0, 0.0, &mut self.machine.room.clone());
        let mut best = walk.best;
        // Branches within GAIN of the best were left unseen.
        best.at_most = best.worth.max(walk.missed) * (1.0 + 2.0 * GAIN);
        best
    }

    /// Items that are worth something here, the worthiest for their folded size first.
    fn candidates(&self, worths: &[f64], weights: &[f64]) -> Vec<Candidate> {
        let mut order: Vec<Candidate> = Vec::with_capacity(self.items.len());
        for (position, item) in self.items.iter().enumerate() {
            if !self.machine.takes[position] || worths[position] <= 0.0 {
                continue;
            }
            let size = folded(weights, &item.needs, &self.machine.room);
            let most = most(item, &self.machine.room);
            order.push(Candidate { item: position, worth: worths[position], size, most });
        }
        order.sort_by(|one, other| (other.worth * one.size).total_cmp(&(one.worth * other.size)));
        order
    }

    /// Moves weight from dimension to dimension as long as that lowers the bound.
    fn tune(&mut self, worths: &[f64]) {
        let mut least = self.relaxed(worths, &self.weights);
        let mut step: f64 = 0.25;
        while step > 1e-3 {
            let mut better = false;
            for from in 0..self.weights.len() {
                for to in (0..self.weights.len()).filter(|to| *to != from) {
                    let mut moved = self.weights.clone();
                    let amount = step.min(moved[from]);
                    moved[from] -= amount;
                    moved[to] += amount;
                    let bound = self.relaxed(worths, &moved);
                    if bound < least * (1.0 - 1e-9) {
                        (least, self.weights, better) = (bound, moved, true);
                    }
                }
            }
            if !better {
                step /= 2.0;
            }
        }
    }

    /// The bound for the whole machine under these weights.
    fn relaxed(&self, worths: &[f64], weights: &[f64]) -> f64 {
        let (mut left, mut worth) = (1.0, 0.0);
        for candidate in self.candidates(worths, weights) {
            let count = if candidate.size > 0.0 { candidate.most.min(left / candidate.size) } else { candidate.most };
            worth += count * candidate.worth;
            left -= count * candidate.size;
            if left <= 1e-12 {
                break;
            }
        }
        worth
    }
}

/// What an item takes of a folded machine of size 1.
fn folded(weights: &[f64], needs: &[f64], room: &[f64]) -> f64 {
    let shares = needs.iter().zip(room).zip(weights).filter(|((need, _), _)| **need > 0.0);
    shares.map(|((need, room), weight)| weight * need / room).sum()
}

/// How many of an item fit by themselves.
fn most(item: &Item, room: &[f64]) -> f64 {
    let fits = item.needs.iter().zip(room).filter(|(need, _)| **need > 0.0);
    fits.map(|(need, room)| (room / need).floor()).fold(item.most, f64::min)
}

/// One depth-first walk.
struct Walk<'a> {
    order: &'a [Candidate],
    items: &'a [Item],
    room: &'a [f64],
    weights: &'a [f64],
    steps: u64,
    counts: Vec<(usize, f64)>,
    best: Filling,
    missed: f64,
}

impl Walk<'_> {
    /// Looks at all ways to go on from the candidate `next` with what is left.
    fn explore(&mut self, next: usize, worth: f64, left: &mut [f64]) {
        if worth > self.best.worth {
            self.best.worth = worth;
            self.best.counts.clone_from(&self.counts);
        }
        let Some(candidate) = self.order.get(next) else { return };
        let promised = worth + self.bound(next, left);
        if promised <= self.best.worth * (1.0 + GAIN) {
            return;
        }
        if self.steps == 0 {
            self.missed = self.missed.max(promised);
            return;
        }
        self.steps -= 1;
        let item = &self.items[candidate.item];
        let mut count = most(item, left);
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

    /// What can be added at most: fractions of items in the folded machine, none more often than it fits by itself.
    fn bound(&self, next: usize, left: &[f64]) -> f64 {
        let mut size = folded(self.weights, left, self.room);
        let mut worth = 0.0;
        for candidate in &self.order[next..] {
            let fits = most(&self.items[candidate.item], left);
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
