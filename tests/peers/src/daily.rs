//! Simulated day on the command line: its totals, its cost compared with the hourly lower bound, and its charts.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use day::clock::{HOUR, START};
use day::faults::Kinds;
use day::picture;
use day::setup::Setup;
use day::simulation::Simulation;
use day::spending::{Spending, Use};
use day::trace::{Event, Size, day};
use day::verdict;
use planner::{MicroDollars, Snapshot};

use crate::bound;

/// Rounds of the bound's search for one hour. A day has many hours, and the first rounds find nearly the whole bound.
const ROUNDS: usize = 25;

/// Size of the day of the comparisons.
pub const SIZE: Size = Size { services: 20, jobs: 12, faults: 1_000, kinds: Kinds::Cluster, from: 0, hours: 24 };

/// The day that `make day` simulates: the same size, with faults of all kinds.
pub const HARD: Size = Size { kinds: Kinds::All, ..SIZE };

/// Size of the same day without faults.
pub const CALM: Size = Size { faults: 0, ..SIZE };

/// Cost of a day from its second hour on, in dollars. The first hour is left out because it only fills an empty cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounded {
    /// Cost of the simulated fleet, by what it was spent on.
    pub spent: BTreeMap<Use, f64>,
    /// Lower bound for the cost of any fleet for the pods at the start of each hour; 0 if it was not computed.
    pub least: f64,
    /// Cost of the fleets that Kerf would launch for the same pods in an empty cluster, computed with the bound.
    pub anew: f64,
}

impl Bounded {
    /// Returns the cost of the simulated fleet.
    #[must_use]
    pub fn cost(&self) -> f64 {
        self.spent.values().sum()
    }
}

/// Simulates a day, hour by hour. With `bounded`, the result contains the cost and its lower bound.
///
/// # Errors
/// Returns an error if an object cannot be generated, or if an invariant was broken.
pub fn simulate(setup: &Setup, size: Size, bounded: bool) -> anyhow::Result<(Simulation, Option<Bounded>)> {
    let mut simulation = Simulation::new(setup)?;
    day(setup.seed, size, START).into_iter().for_each(|(at, event): (i64, Event)| simulation.at(at, event));
    let result = play(&mut simulation, size.hours, bounded)?;
    let broken = verdict::broken(&simulation);
    anyhow::ensure!(broken.is_empty(), "the day violated invariants:\n  {}", broken.join("\n  "));
    Ok((simulation, bounded.then_some(result)))
}

/// Runs a simulation hour by hour, and returns its cost; the lower bound is 0 without `bounded`.
///
/// # Errors
/// Returns an error if there is no plan in the first hour, or if the bound cannot be computed.
pub fn play(simulation: &mut Simulation, hours: i64, bounded: bool) -> anyhow::Result<Bounded> {
    let mut result = Bounded::default();
    let mut first = Spending::default();
    for hour in 1..=hours {
        if bounded && hour > 1 {
            let snapshot = simulation.snapshot().context("no plan in the first hour")?;
            let bare = at_market_prices(planner::without_nodes(&snapshot));
            result.least += bound::within(&bound::Market::of(&bare)?, ROUNDS)?.dollars;
            result.anew += planner::plan(&bare).launches.iter().map(|launch| launch.price.0 as f64 / 1e6).sum::<f64>();
        }
        simulation.run(START + hour * HOUR);
        if hour == 1 {
            first = simulation.record.spending.clone();
        }
    }
    result.spent = simulation.record.spending.since(&first).by_use();
    Ok(result)
}

/// Returns the snapshot with the prices that the simulation counts: those of instances, without premiums for the risk of an
/// interruption and without volumes. Nodes that exist may be of offerings that EC2 does not sell now, so all are available.
fn at_market_prices(mut snapshot: Snapshot) -> Snapshot {
    for catalogue in snapshot.catalogues.iter_mut().map(Arc::make_mut) {
        catalogue.node_extras = MicroDollars(0);
        for offering in catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings) {
            offering.available = true;
            offering.price = offering.charged();
            offering.premium = MicroDollars(0);
        }
    }
    snapshot
}

/// Returns the totals of a day in a few lines.
#[must_use]
pub fn describe(simulation: &Simulation, bounded: Option<Bounded>, size: Size) -> String {
    let share = bounded.map(|it| {
        let (cost, over) = (it.cost(), it.cost() / it.least);
        let parts = parts(&it);
        format!(
            "\nfrom the second hour on {cost:.2} $, {over:.4} times the hourly lower bound of {:.2} $\n{parts}",
            it.least
        )
    });
    let share = share.unwrap_or_default();
    format!("{} hours, {}{share}", size.hours, verdict::figures(simulation))
}

/// Returns what the money was spent on, and how much of it a new fleet for the same pods would cost.
#[must_use]
pub fn parts(result: &Bounded) -> String {
    let share = |(purpose, dollars): (&Use, &f64)| {
        format!("{} {dollars:.2} $ ({:.1} %)", purpose.as_str(), dollars / result.cost() * 100.0)
    };
    let shares = result.spent.iter().map(share).collect::<Vec<_>>().join(", ");
    if result.least == 0.0 { shares } else { format!("{shares}; new fleets every hour {:.2} $", result.anew) }
}

/// Writes the charts of a day into a folder.
///
/// # Errors
/// Returns an error if a file cannot be written.
pub fn draw(simulation: &Simulation, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for (name, picture) in
        [("fleet.svg", picture::fleet(&simulation.record)), ("moves.svg", picture::moves(&simulation.record))]
    {
        let path = folder.join(name);
        fs::write(&path, picture).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
