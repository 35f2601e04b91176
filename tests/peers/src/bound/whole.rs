//! Lower bound for fleets of whole nodes, under constraints on hosts and zones.
//!
//! For each possible number of nodes an integer program chooses how many nodes of each type there are. It knows the pods by
//! cuts only: for any values of the pods, the nodes together must be able to hold pods of at least the total value. Each round
//! solves the integer program, and a linear program then looks for values for which the chosen nodes hold too little
//! (`shortage`). The round ends without such values: then fractions of fillings place all pods on these whole nodes.
//!
//! The cost of every round is a valid bound, because no real fleet violates a cut.

use anyhow::{Context, ensure};
use good_lp::{
    Expression, ProblemVariables, ResolutionError, Solution, SolverModel, Variable, clarabel, constraint, microlp,
    variable,
};
use planner::Snapshot;

use super::filling::{Search, most};
use super::parts::{Part, parts};
use super::{Bound, Machine, Market};

/// Most rounds for one number of nodes.
const ROUNDS: usize = 300;
/// Search steps for one node.
const STEPS: u64 = 10_000;
/// The same for a proof that needs more.
const MOST_STEPS: u64 = 1_000_000;
/// Share of the pods' total value by which the chosen nodes must hold too little to be excluded.
const SHORTAGE: f64 = 1e-4;
/// Relative margin for the rounding errors of sums of doubles.
const MARGIN: f64 = 1e-6;

/// Returns the bound of a snapshot without nodes: the one of whole nodes, or of fractions of nodes where it is higher.
///
/// # Errors
/// Returns an error if there are nodes already, if no number of nodes holds all pods, or if a program cannot be solved.
pub fn of_constrained(snapshot: &Snapshot) -> anyhow::Result<Bound> {
    let none = Bound { dollars: 0.0, ceiling: 0.0, rounds: 0 };
    let whole = parts(snapshot)?.iter().try_fold(none, |sum, part| -> anyhow::Result<Bound> {
        let one = of_part(part)?;
        let (dollars, ceiling) = (sum.dollars + one.dollars, sum.ceiling + one.ceiling);
        Ok(Bound { dollars, ceiling, rounds: sum.rounds + one.rounds })
    })?;
    let fractions = super::of_snapshot(snapshot)?;
    Ok(Bound { dollars: whole.dollars.max(fractions.dollars), ceiling: whole.ceiling.max(fractions.dollars), ..whole })
}

/// Returns the bound of a part. Its ceiling is infinite if the search was stopped.
///
/// # Errors
/// Returns the errors of [`of_constrained`].
pub fn of_part(part: &Part) -> anyhow::Result<Bound> {
    let cheapest = part.market.machines.iter().map(|machine| machine.price).fold(f64::INFINITY, f64::min);
    let mut best = Bound { dollars: f64::INFINITY, ceiling: f64::INFINITY, rounds: 0 };
    for nodes in part.hosts.clone() {
        if nodes as f64 * cheapest >= best.dollars {
            break;
        }
        for market in part.with_hosts(nodes) {
            let mut fleets = Fleets::new(&market, nodes);
            let found = fleets.least_cost(best.dollars)?;
            best.rounds += fleets.rounds;
            if let Some(dollars) = found.filter(|dollars| *dollars < best.dollars) {
                best.dollars = dollars;
                best.ceiling = if fleets.is_proven { dollars } else { f64::INFINITY };
            }
        }
    }
    ensure!(best.dollars.is_finite(), "no number of nodes in {:?} holds all pods", part.hosts);
    Ok(Bound { dollars: best.dollars * (1.0 - MARGIN), ..best })
}

/// Necessary condition on the numbers of nodes: together they hold pods of this value.
struct Cut {
    of_node: Vec<f64>,
    total: f64,
}

impl Cut {
    /// Returns the condition in units of the greatest value of a node, weaker by at most [`MARGIN`]. The integer program needs
    /// coefficients of similar size with few digits.
    fn new(of_node: Vec<f64>, total: f64) -> Self {
        let unit = of_node.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let up = |value: &f64| (value / unit / MARGIN).ceil() * MARGIN;
        Self { of_node: of_node.iter().map(up).collect(), total: (total / unit / MARGIN).floor() * MARGIN }
    }

    fn permits(&self, numbers: &[f64]) -> bool {
        self.of_node.iter().zip(numbers).map(|(worth, number)| worth * number).sum::<f64>() >= self.total
    }
}

/// Fleets with a certain number of nodes.
struct Fleets<'a> {
    market: &'a Market,
    nodes: f64,
    searches: Vec<Search<'a>>,
    /// Known fillings of each node that can be launched.
    fillings: Vec<Vec<Vec<(usize, f64)>>>,
    cuts: Vec<Cut>,
    rounds: usize,
    /// True if the search was complete.
    is_proven: bool,
}

impl<'a> Fleets<'a> {
    fn new(market: &'a Market, nodes: usize) -> Self {
        let alone = |position: usize, machine: &Machine| match machine.takes[position] {
            true => most(&market.items[position], market.items[position].most, &machine.allocatable),
            false => 0.0,
        };
        let cut = |position: usize| {
            let of_node = market.machines.iter().map(|machine| alone(position, machine)).collect();
            Cut::new(of_node, market.items[position].count)
        };
        let singles = |machine: &Machine| {
            let loads = (0..market.items.len()).map(|item| (item, alone(item, machine)));
            loads.filter(|(_, load)| *load > 0.0).map(|load| vec![load]).collect()
        };
        Self {
            market,
            nodes: nodes as f64,
            searches: market.machines.iter().map(|machine| Search::new(machine, &market.items)).collect(),
            fillings: market.machines.iter().map(singles).collect(),
            cuts: (0..market.items.len()).map(cut).collect(),
            rounds: 0,
            is_proven: true,
        }
    }

    /// Returns a lower bound for the cost. The search ends early when it reaches `enough`. Returns `None` if no fleet with this
    /// number of nodes holds all pods.
    fn least_cost(&mut self, enough: f64) -> anyhow::Result<Option<f64>> {
        loop {
            self.rounds += 1;
            let Some((cost, numbers)) = self.cheapest()? else { return Ok(None) };
            if cost >= enough {
                return Ok(Some(cost));
            }
            if self.rounds == ROUNDS {
                self.is_proven = false;
                return Ok(Some(cost));
            }
            let Some(worths) = self.shortage(&numbers)? else { return Ok(Some(cost)) };
            let Some(cut) = self.cut(&worths, &numbers) else {
                self.is_proven = false;
                return Ok(Some(cost));
            };
            self.cuts.push(cut);
        }
    }

    /// Returns the cheapest numbers of nodes of each type that satisfy the cuts, with their cost.
    fn cheapest(&self) -> anyhow::Result<Option<(f64, Vec<f64>)>> {
        let mut variables = ProblemVariables::new();
        let some = variable().integer().min(0.0).max(self.nodes);
        let numbers: Vec<Variable> = self.market.machines.iter().map(|_| variables.add(some.clone())).collect();
        let priced = numbers.iter().zip(&self.market.machines);
        let cost: Expression = priced.map(|(number, machine)| *number * machine.price).sum();
        let mut program = variables.minimise(cost.clone()).using(microlp);
        program = program.with(constraint!(numbers.iter().sum::<Expression>() == self.nodes));
        for cut in &self.cuts {
            let held: Expression = numbers.iter().zip(&cut.of_node).map(|(number, worth)| *number * *worth).sum();
            program = program.with(constraint!(held >= cut.total));
        }
        let solution = match program.solve() {
            Ok(solution) => solution,
            Err(ResolutionError::Infeasible) => return Ok(None),
            Err(error) => return Err(error).context("the integer program of a fleet"),
        };
        let numbers: Vec<f64> = numbers.iter().map(|number| solution.value(*number).round()).collect();
        let cost = numbers.iter().zip(&self.market.machines).map(|(number, machine)| number * machine.price).sum();
        Ok(Some((cost, numbers)))
    }

    /// Returns values of the pods for which these nodes hold less than all pods are worth; `None` if there are none.
    fn shortage(&mut self, numbers: &[f64]) -> anyhow::Result<Option<Vec<f64>>> {
        if self.market.items.is_empty() {
            return Ok(None);
        }
        let limits = self.market.limits();
        loop {
            let (missing, worths, held) = self.values(numbers)?;
            if missing <= SHORTAGE {
                return Ok(None);
            }
            let mut better = false;
            for (position, _) in numbers.iter().enumerate().filter(|(_, number)| **number > 0.0) {
                let found = self.searches[position].best(&worths, &limits, held[position] * (1.0 + MARGIN), STEPS);
                let is_worth_more = found.worth > held[position] + SHORTAGE / self.nodes / 10.0;
                if is_worth_more && !self.fillings[position].contains(&found.counts) {
                    self.fillings[position].push(found.counts);
                    better = true;
                }
            }
            if !better {
                return Ok(Some(worths));
            }
        }
    }

    /// Returns by how much the known fillings of these nodes hold too little of all pods, with the values of pods and fillings
    /// for which it is most.
    fn values(&self, numbers: &[f64]) -> anyhow::Result<(f64, Vec<f64>, Vec<f64>)> {
        let mut variables = ProblemVariables::new();
        let items = &self.market.items;
        let worths: Vec<Variable> = items.iter().map(|_| variables.add(variable().min(0.0))).collect();
        let held: Vec<Variable> = numbers.iter().map(|_| variables.add(variable().min(0.0))).collect();
        let total: Expression = worths.iter().zip(items).map(|(worth, item)| *worth * item.count).sum();
        let capacity: Expression = held.iter().zip(numbers).map(|(held, number)| *held * *number).sum();
        let missing = total.clone() - capacity;
        let mut program = variables.maximise(missing.clone()).using(clarabel).with(constraint!(total == 1.0));
        for (position, _) in numbers.iter().enumerate().filter(|(_, number)| **number > 0.0) {
            for filling in &self.fillings[position] {
                let worth: Expression = filling.iter().map(|(item, count)| worths[*item] * *count).sum();
                program = program.with(constraint!(worth <= held[position]));
            }
        }
        let solution = program.solve().context("the linear program of the pods' values")?;
        let value = |of: &[Variable]| of.iter().map(|it| solution.value(*it).max(0.0)).collect();
        Ok((solution.eval(missing), value(&worths), value(&held)))
    }

    /// Returns the condition that these values give, with the proven greatest value of each node. Returns `None` if too little is
    /// proven to exclude these nodes.
    fn cut(&mut self, worths: &[f64], numbers: &[f64]) -> Option<Cut> {
        let limits = self.market.limits();
        let total: f64 = worths.iter().zip(&self.market.items).map(|(worth, item)| worth * item.count).sum();
        let mut with = |steps: u64| {
            let greatest = |it: &mut Search<'_>| it.best(worths, &limits, 0.0, steps).at_most;
            Cut::new(self.searches.iter_mut().map(greatest).collect(), total)
        };
        [STEPS, MOST_STEPS].into_iter().map(&mut with).find(|cut| !cut.permits(numbers))
    }
}
