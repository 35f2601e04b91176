//! Most valuable way to fill one node: a knapsack with several dimensions.
//!
//! Weights fold all dimensions into one. Pods that fit in every dimension fit into the folded one, so a filling of the folded
//! dimension with fractions of items is an upper bound. The weights with the lowest bound are kept from round to round. If the
//! bound is not above the required value, no search runs. Otherwise `greedy` finds a good filling and `walk` searches for
//! better ones.

use super::greedy::Load;
use super::walk::Walk;
use super::{Item, Machine};

/// Filling with a proof.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filling {
    /// Positions of items, each with a count.
    pub counts: Vec<(usize, f64)>,
    /// Value of the filling.
    pub worth: f64,
    /// Upper bound for the value of any filling.
    pub at_most: f64,
}

/// Search for one node.
pub(super) struct Search<'a> {
    machine: &'a Machine,
    items: &'a [Item],
    weights: Vec<f64>,
}

/// Item in the order of the search.
pub(super) struct Candidate {
    pub(super) item: usize,
    pub(super) worth: f64,
    pub(super) size: f64,
    pub(super) most: f64,
}

impl<'a> Search<'a> {
    pub(super) fn new(machine: &'a Machine, items: &'a [Item]) -> Self {
        let dimensions = machine.allocatable.len();
        Self { machine, items, weights: vec![1.0 / dimensions as f64; dimensions] }
    }

    /// Returns the price of the node in dollars per hour.
    pub(super) fn price(&self) -> f64 {
        self.machine.price
    }

    /// Returns the best filling that the search finds in `steps` steps, with at most `limits` of each item. If no filling can
    /// exceed `enough`, the result contains only `at_most`.
    pub(super) fn best(&mut self, worths: &[f64], limits: &[f64], enough: f64, steps: u64) -> Filling {
        let at_most = self.at_most(worths, limits);
        if at_most <= enough {
            return Filling { at_most, ..Filling::default() };
        }
        let order = self.candidates(worths, limits, &self.weights);
        let load = Load::of(&order, self.items, &self.weights, &self.machine.allocatable);
        let held = order.iter().zip(&load.counts).filter(|(_, count)| **count > 0.0);
        let counts = held.map(|(candidate, count)| (candidate.item, *count)).collect();
        let known = Filling { counts, worth: load.worth, at_most };
        Walk::new(&order, self.items, &self.machine.allocatable, &self.weights).best(known, enough, steps)
    }

    /// Returns an upper bound for the value of any filling. Weight is moved between dimensions as long as the bound falls.
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

    /// Returns the items with a positive value on this node, in descending order of value per folded size.
    fn candidates(&self, worths: &[f64], limits: &[f64], weights: &[f64]) -> Vec<Candidate> {
        let mut order: Vec<Candidate> = Vec::with_capacity(self.items.len());
        for (position, item) in self.items.iter().enumerate() {
            let most = most(item, limits[position], &self.machine.allocatable);
            if self.machine.takes[position] && worths[position] > 0.0 && most >= 1.0 {
                let size = folded(weights, &item.needs, &self.machine.allocatable);
                order.push(Candidate { item: position, worth: worths[position], size, most });
            }
        }
        let density = |it: &Candidate| it.worth / it.size;
        order.sort_by(|one, other| density(other).total_cmp(&density(one)));
        order
    }

    /// Returns the bound for the whole node under these weights.
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

/// Returns the size of an item in a folded node of size 1.
pub(super) fn folded(weights: &[f64], needs: &[f64], allocatable: &[f64]) -> f64 {
    let shares = needs.iter().zip(allocatable).zip(weights).filter(|((need, _), _)| **need > 0.0);
    shares.map(|((need, allocatable), weight)| weight * need / allocatable).sum()
}

/// Returns how many pods of an item fit alone, limited by `limit`.
pub(super) fn most(item: &Item, limit: f64, allocatable: &[f64]) -> f64 {
    let fits = item.needs.iter().zip(allocatable).filter(|(need, _)| **need > 0.0);
    fits.map(|(need, allocatable)| (allocatable / need).floor()).fold(limit, f64::min)
}
