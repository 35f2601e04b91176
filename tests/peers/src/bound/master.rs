//! The master program: the greatest worth of all pods such that no known filling is worth more than its machine costs.

use anyhow::Context;
use good_lp::{Expression, ProblemVariables, Solution, SolverModel, Variable, clarabel, constraint, variable};

use super::{Filling, Machine, Market};

/// How much more than the machine's price a filling must be worth to be taken in, as a share of the price.
const WORTH_ADDING: f64 = 1e-6;
/// Fillings taken in at once: more would make the program larger than it makes the rounds fewer.
const AT_ONCE: usize = 30;

/// Known fillings: the machine's price and how many of each item, by position.
pub(super) struct Columns(Vec<(f64, Vec<(usize, f64)>)>);

impl Columns {
    /// Each item alone on the machine where that is cheapest: enough to keep every worth finite.
    pub(super) fn singles(market: &Market) -> Self {
        let single = |position: usize| {
            let loads = market.machines.iter().filter(|it| it.takes[position]).map(|machine| {
                let item = &market.items[position];
                let fits = item.needs.iter().zip(&machine.room).filter(|(need, _)| **need > 0.0);
                let load = fits.map(|(need, room)| (room / need).floor()).fold(item.most, f64::min);
                (machine.price, vec![(position, load)])
            });
            loads.min_by(|(one, a), (other, b)| (one / a[0].1).total_cmp(&(other / b[0].1)))
        };
        Self((0..market.items.len()).filter_map(single).collect())
    }

    /// Takes in one filling and what its machine costs.
    pub(super) fn push(&mut self, price: f64, counts: Vec<(usize, f64)>) {
        self.0.push((price, counts));
    }

    /// Takes in the fillings that are worth most beyond what their machines cost; whether there was any.
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

    /// The best worths, dollars per hour for one pod of each item, and what all pods are worth together: of all worths, or
    /// of those that differ from some by no more than a share of them.
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
