//! Fast heuristic for a good filling of a node: pods are added one at a time, by their value for the share of the remaining
//! capacity.
//!
//! A scarce resource gets more expensive, so that all resources run out together. Then each kind, one after the other, gives up
//! one pod and the capacity is filled again; a filling with a higher value is kept. On large nodes, the result is closer to the
//! best filling than any depth-first search of acceptable length. A depth-first search fills the first resource and then lacks
//! it to the end.

use super::Item;
use super::filling::Candidate;

/// Node that is being filled.
#[derive(Clone)]
pub(super) struct Load<'a> {
    order: &'a [Candidate],
    items: &'a [Item],
    weights: &'a [f64],
    left: Vec<f64>,
    /// Count of each candidate.
    pub(super) counts: Vec<f64>,
    pub(super) worth: f64,
}

impl<'a> Load<'a> {
    /// Returns a good filling of a node with these weights of its resources.
    pub(super) fn of(order: &'a [Candidate], items: &'a [Item], weights: &'a [f64], allocatable: &[f64]) -> Self {
        let mut load =
            Self { order, items, weights, left: allocatable.to_vec(), counts: vec![0.0; order.len()], worth: 0.0 };
        load.fill(None);
        load.improve();
        load
    }

    /// Adds pods until none fits, except those of one candidate.
    fn fill(&mut self, but: Option<usize>) {
        loop {
            let dear = |(weight, left): (&f64, &f64)| if *left > 0.0 { weight / left } else { 0.0 };
            let dear: Vec<f64> = self.weights.iter().zip(&self.left).map(dear).collect();
            let fitting = (0..self.order.len()).filter(|at| Some(*at) != but && self.fits(*at));
            let ranked = fitting.map(|at| {
                let taken: f64 = self.needs(at).iter().zip(&dear).map(|(need, dear)| need * dear).sum();
                (self.order[at].worth / taken, at)
            });
            let Some((_, at)) = ranked.max_by(|(one, _), (other, _)| one.total_cmp(other)) else { return };
            self.put(at, 1.0);
        }
    }

    /// Exchanges single pods for others as long as the value rises.
    fn improve(&mut self) {
        for at in 0..self.order.len() {
            while self.counts[at] >= 1.0 {
                let mut other = self.clone();
                other.put(at, -1.0);
                other.fill(Some(at));
                if other.worth <= self.worth * (1.0 + 1e-9) {
                    break;
                }
                *self = other;
            }
        }
    }

    fn needs(&self, at: usize) -> &'a [f64] {
        &self.items[self.order[at].item].needs
    }

    fn fits(&self, at: usize) -> bool {
        let allocatable = self.needs(at).iter().zip(&self.left).all(|(need, left)| *need <= 0.0 || need <= left);
        allocatable && self.counts[at] < self.order[at].most
    }

    fn put(&mut self, at: usize, count: f64) {
        let needs = self.needs(at);
        self.left.iter_mut().zip(needs).for_each(|(left, need)| *left -= need * count);
        self.counts[at] += count;
        self.worth += self.order[at].worth * count;
    }
}
