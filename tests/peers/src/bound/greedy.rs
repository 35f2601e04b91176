//! A good way to fill a machine, quickly: pods one by one, by their worth for what they take of what is left.
//!
//! A resource that runs out before the others gets dearer, so that all run out together. Then each kind in turn gives up
//! a pod and the room is filled anew; what is worth more stays. On large machines this comes closer to the best filling
//! than any depth-first search of bearable length, which fills the first resource and then lacks it to the end.

use super::Item;
use super::filling::Candidate;

/// A machine that is being filled.
#[derive(Clone)]
pub(super) struct Load<'a> {
    order: &'a [Candidate],
    items: &'a [Item],
    weights: &'a [f64],
    left: Vec<f64>,
    /// How many of each candidate.
    pub(super) counts: Vec<f64>,
    pub(super) worth: f64,
}

impl<'a> Load<'a> {
    /// A good filling of a room whose resources count with these weights.
    pub(super) fn of(order: &'a [Candidate], items: &'a [Item], weights: &'a [f64], room: &[f64]) -> Self {
        let mut load = Self { order, items, weights, left: room.to_vec(), counts: vec![0.0; order.len()], worth: 0.0 };
        load.fill(None);
        load.improve();
        load
    }

    /// Adds pods until none fits, none of one candidate.
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

    /// Exchanges single pods for others as long as that pays.
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
        let room = self.needs(at).iter().zip(&self.left).all(|(need, left)| *need <= 0.0 || need <= left);
        room && self.counts[at] < self.order[at].most
    }

    fn put(&mut self, at: usize, count: f64) {
        let needs = self.needs(at);
        self.left.iter_mut().zip(needs).for_each(|(left, need)| *left -= need * count);
        self.counts[at] += count;
        self.worth += self.order[at].worth * count;
    }
}
