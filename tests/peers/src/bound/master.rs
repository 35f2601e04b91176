//! Master program: maximizes the value of all pods such that no known filling has a greater value than its node's price.

use anyhow::Context;
use good_lp::{Expression, ProblemVariables, Solution, SolverModel, Variable, clarabel, constraint, variable};

use super::{Filling, Machine, Market};

/// Least excess of a filling's value over the node's price for its addition, as a share of the price.
const WORTH_ADDING: f64 = 1e-6;
/// Most fillings added at once. More would cost more program size than they save rounds.
const AT_ONCE: usize = 30;

/// Known fillings: price of the node and count of each item, by position.
pub(super) struct Columns(Vec<(f64, Vec<(usize, f64)>)>);

impl Columns {
    /// Returns each item alone on its cheapest node: enough to keep every value finite.
    pub(super) fn singles(market: &Market) -> Self {
        let single = |position: usize| {
            let loads = market.machines.iter().filter(|it| it.takes[position]).map(|machine| {
                let item = &market.items[position];
                let fits = item.needs.iter().zip(&machine.allocatable).filter(|(need, _)| **need > 0.0);
                let load = fits.map(|(need, allocatable)| (allocatable / need).floor()).fold(item.most, f64::min);
                (machine.price, vec![(position, load)])
            });
            loads.min_by(|(one, a), (other, b)| (one / a[0].1).total_cmp(&(other / b[0].1)))
        };
        Self((0..market.items.len()).filter_map(single).collect())
    }

    /// Adds one filling with the price of its node.
    pub(super) fn push(&mut self, price: f64, counts: Vec<(usize, f64)>) {
        self.0.push((price, counts));
    }

    /// Adds the fillings that exceed the prices of their nodes most; returns true if there was any.
    pub(super) fn add(&mut self, market: &Market, worths: &[f64], found: Vec<Filling>) -> bool {
        let over = |(machine, filling): (&Machine, Filling)| {
            let worth: f64 = filling.counts.iter().map(|(item, count)| worths[*item] * count).sum();
            (worth / machine.price, machine.price, filling.counts)
        };
        let mut over: Vec<_> = market.machines.iter().zip(found).map(over).collect();
        over.retain(|(ratio, ..)| *ratio > 1.0 + WORTH_ADDING);
        over.sort_by(|(one, ..), (other, ..)| other.total_cmp(one));
        over.truncate(AT_ONCE);
        let any = !over.is_empty();
        self.0.extend(over.into_iter().map(|(_, price, counts)| (price, counts)));
        any
    }

    /// Returns the best values, in dollars per hour for one pod of each item, and the value of all pods. With `near`, each
    /// value differs from the given one by at most the given share.
    pub(super) fn solve(&self, market: &Market, near: Option<(&[f64], f64)>) -> anyhow::Result<(Vec<f64>, f64)> {
        let mut variables = ProblemVariables::new();
        let range = |item: usize| match near {
            None => variable().min(0.0),
            Some((worths, reach)) => variable().min(worths[item] * (1.0 - reach)).max(worths[item] * (1.0 + reach)),
        };
        let worths: Vec<Variable> = (0..market.items.len()).map(|item| variables.add(range(item))).collect();
        let total: Expression = worths.iter().zip(&market.items).map(|(worth, item)| *worth * item.count).sum();
        let mut program = variables.maximise(total).using(clarabel);
        for (price, counts) in &self.0 {
            let worth: Expression = counts.iter().map(|(item, count)| worths[*item] * *count).sum();
            program = program.with(constraint!(worth <= *price));
        }
        let solution = program.solve().context("the bound's linear program")?;
        let values: Vec<f64> = worths.iter().map(|worth| solution.value(*worth).max(0.0)).collect();
        let sum = values.iter().zip(&market.items).map(|(value, item)| value * item.count).sum();
        Ok((values, sum))
    }
}
