//! What pods are worth where machines can be filled to the brim: the linear program over what each machine's resources
//! are worth.
//!
//! A machine's resources get values that together come to no more than its price; a pod is worth no more than what it
//! takes is worth on any machine that it may go to. However a machine is filled, its pods are then worth at most its
//! price, so the worths need no search to be proven. They ignore that pods cannot be cut, nothing else.

use anyhow::Context;
use good_lp::{Expression, ProblemVariables, Solution, SolverModel, Variable, clarabel, constraint, variable};

use super::{Item, Machine, Market};

/// Dollars per hour for one pod of each item, such that no way to fill a machine is worth more than its price.
pub(super) fn worths(market: &Market) -> anyhow::Result<Vec<f64>> {
    let values = values(market)?;
    let worth = |position: usize, item: &Item| {
        let places = market.machines.iter().zip(&values).filter(|(machine, _)| machine.takes[position]);
        places.map(|(machine, values)| taken(machine, values, item)).fold(f64::INFINITY, f64::min)
    };
    Ok(market.items.iter().enumerate().map(|(position, item)| worth(position, item)).collect())
}

/// For each machine what the whole of each resource is worth; together never more than its price.
fn values(market: &Market) -> anyhow::Result<Vec<Vec<f64>>> {
    let mut variables = ProblemVariables::new();
    let mut some =
        |number: usize| -> Vec<Variable> { (0..number).map(|_| variables.add(variable().min(0.0))).collect() };
    let worths = some(market.items.len());
    let values: Vec<Vec<Variable>> = market.machines.iter().map(|machine| some(machine.room.len())).collect();
    let total: Expression = worths.iter().zip(&market.items).map(|(worth, item)| *worth * item.count).sum();
    let mut program = variables.maximise(total).using(clarabel);
    for (machine, values) in market.machines.iter().zip(&values) {
        program = program.with(constraint!(values.iter().sum::<Expression>() <= machine.price));
        for (position, item) in market.items.iter().enumerate().filter(|(position, _)| machine.takes[*position]) {
            let shares = shares(machine, item).zip(values).map(|(share, value)| *value * share);
            program = program.with(constraint!(worths[position] <= shares.sum::<Expression>()));
        }
    }
    let solution = program.solve().context("the linear program of a fleet without waste")?;
    let exact = |(machine, values): (&Machine, &Vec<Variable>)| -> Vec<f64> {
        let values: Vec<f64> = values.iter().map(|value| solution.value(*value).max(0.0)).collect();
        let scale = (machine.price / values.iter().sum::<f64>()).min(1.0);
        values.iter().map(|value| value * scale).collect()
    };
    Ok(market.machines.iter().zip(&values).map(exact).collect())
}

/// What share of each of a machine's resources an item takes. Of what a machine does not have, an item that fits takes none.
fn shares(machine: &Machine, item: &Item) -> impl Iterator<Item = f64> {
    item.needs.iter().zip(&machine.room).map(|(need, room)| if *need > 0.0 { need / room } else { 0.0 })
}

/// What an item takes there, in dollars per hour.
fn taken(machine: &Machine, values: &[f64], item: &Item) -> f64 {
    shares(machine, item).zip(values).map(|(share, value)| share * value).sum()
}
