//! The most valuable way to fill one machine: a knapsack with several dimensions.
//!
//! All dimensions are folded into one by weights; whoever fits in every dimension fits into the folded one, so filling
//! that one with fractions of items bounds the worth from above. The weights that make this bound least are kept from
//! round to round. Where the bound is not above what is enough, nothing is searched. Else `greedy` finds a good filling
//! and `walk` looks for better ones.

use super::greedy::Load;
use super::walk::Walk;
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
pub(super) struct Candidate {
    pub(super) item: usize,
    pub(super) worth: f64,
    pub(super) size: f64,
    pub(super) most: f64,
}

impl<'a> Search<'a> {
    pub(super) fn new(machine: &'a Machine, items: &'a [Item]) -> Self {
        let dimensions = machine.room.len();
        Self { machine, items, weights: vec![1.0 / dimensions as f64; dimensions] }
    }

    /// What the machine costs, dollars per hour.
    pub(super) fn price(&self) -> f64 {
        self.machine.price
    }

    /// The best filling that so many steps find, none that has more of an item than `limits` says. Where none can be worth
    /// more than `enough`, only that is told.
    pub(super) fn best(&mut self, worths: &[f64], limits: &[f64], enough: f64, steps: u64) -> Filling {
        let at_most = self.at_most(worths, limits);
        if at_most <= enough {
            return Filling { at_most, ..Filling::default() };
        }
        let order = self.candidates(worths, limits, &self.weights);
        let load = Load::of(&order, self.items, &self.weights, &self.machine.room);
        let held = order.iter().zip(&load.counts).filter(|(_, count)| **count > 0.0);
        let counts = held.map(|(candidate, count)| (candidate.item, *count)).collect();
        let known = Filling { counts, worth: load.worth, at_most };
        Walk::new(&order, self.items, &self.machine.room, &self.weights).best(known, enough, steps)
    }

    /// No filling is worth more: the bound under the best weights that are found by moving weight from dimension to
    /// dimension as long as that lowers it.
    pub(super) fn at_most(&mut self, worths: &[f64], limits: &[f64]) -> f64 {
        let mut least = self.relaxed(worths, limits, &self.weights);
        let mut step: f64 = 0.25;
        while step > 1e-3 {
            let mut better = false;
            for from in 0..self.weights.len() {
                for to in (0..self.weights.len()).filter(|to| *to != from) {
                    let mut moved = self.weights.clone();
                    let amount = step.min(moved[from]);
                    moved[from] -= amount;
                    moved[to] += amount;
                    let bound = self.relaxed(worths, limits, &moved);
                    if bound < least * (1.0 - 1e-9) {
                        (least, self.weights, better) = (bound, moved, true);
                    }
                }
            }
            if !better {
                step /= 2.0;
            }
        }
        least
    }

    /// Items that are worth something here, the worthiest for their folded size first.
    fn candidates(&self, worths: &[f64], limits: &[f64], weights: &[f64]) -> Vec<Candidate> {
        let mut order: Vec<Candidate> = Vec::with_capacity(self.items.len());
        for (position, item) in self.items.iter().enumerate() {
            let most = most(item, limits[position], &self.machine.room);
            if self.machine.takes[position] && worths[position] > 0.0 && most >= 1.0 {
                let size = folded(weights, &item.needs, &self.machine.room);
                order.push(Candidate { item: position, worth: worths[position], size, most });
            }
        }
        let density = |it: &Candidate| it.worth / it.size;
        order.sort_by(|one, other| density(other).total_cmp(&density(one)));
        order
    }

    /// The bound for the whole machine under these weights.
    fn relaxed(&self, worths: &[f64], limits: &[f64], weights: &[f64]) -> f64 {
        let (mut left, mut worth) = (1.0, 0.0);
        for candidate in self.candidates(worths, limits, weights) {
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
pub(super) fn folded(weights: &[f64], needs: &[f64], room: &[f64]) -> f64 {
    let shares = needs.iter().zip(room).zip(weights).filter(|((need, _), _)| **need > 0.0);
    shares.map(|((need, room), weight)| weight * need / room).sum()
}

/// How many of an item fit by themselves, no more than the limit.
pub(super) fn most(item: &Item, limit: f64, room: &[f64]) -> f64 {
    let fits = item.needs.iter().zip(room).filter(|(need, _)| **need > 0.0);
    fits.map(|(need, room)| (room / need).floor()).fold(limit, f64::min)
}
