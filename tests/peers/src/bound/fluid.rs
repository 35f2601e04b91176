//! Values of pods if nodes could be filled completely: a linear program over the values of each node's resources.
//!
//! The values of a node's resources sum to no more than its price. The value of a pod is at most the value of the resources
//! that it takes on any eligible node. The pods of any filling are then worth at most the price of the node, so these values
//! need no search as a proof. The values only ignore that pods cannot be divided.

use anyhow::Context;
use good_lp::{Expression, ProblemVariables, Solution, SolverModel, Variable, clarabel, constraint, variable};

use super::{Item, Machine, Market};

/// Returns dollars per hour for one pod of each item, such that no filling of a node has a greater value than the node's price.
pub(super) fn worths(market: &Market) -> anyhow::Result<Vec<f64>> {
    let values = values(market)?;
    let worth = |position: usize, item: &Item| {
        let places = market.machines.iter().zip(&values).filter(|(machine, _)| machine.takes[position]);
        places.map(|(machine, values)| taken(machine, values, item)).fold(f64::INFINITY, f64::min)
    };
    Ok(market.items.iter().enumerate().map(|(position, item)| worth(position, item)).collect())
}

/// Returns the value of the whole of each resource, for each node; their sum never exceeds its price.
fn values(market: &Market) -> anyhow::Result<Vec<Vec<f64>>> {
    let mut variables = ProblemVariables::new();
    let mut some =
        |number: usize| -> Vec<Variable> { (0..number).map(|_| variables.add(variable().min(0.0))).collect() };
    let worths = some(market.items.len());
    let values: Vec<Vec<Variable>> = market.machines.iter().map(|machine| some(machine.allocatable.len())).collect();
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

/// Returns the share of each of a node's resources that an item takes. An item that fits takes nothing of a resource that the
/// node does not have.
fn shares(machine: &Machine, item: &Item) -> impl Iterator<Item = f64> {
    item.needs
        .iter()
        .zip(&machine.allocatable)
        .map(|(need, allocatable)| if *need > 0.0 { need / allocatable } else { 0.0 })
}

/// Returns the value of the resources that an item takes on a node, in dollars per hour.
fn taken(machine: &Machine, values: &[f64], item: &Item) -> f64 {
    shares(machine, item).zip(values).map(|(share, value)| share * value).sum()
}
