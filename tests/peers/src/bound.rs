//! What any fleet for a snapshot's pods costs at least: column generation over all ways to fill one machine.
//!
//! A fleet is so and so many machines of each type, each filled in some way. Letting the numbers be fractions gives a
//! linear program whose optimum no real fleet can undercut. Its dual gives every pod a worth such that no way to fill a
//! machine is worth more than the machine costs; the pods' worth together is the bound. We look for such worths
//! directly: the master program knows some fillings (`master`), a search finds fillings that are worth too much
//! (`filling`), and they are added until there are none. Because the search also proves how much any filling can be
//! worth at most, scaling the worths down gives a valid bound at every moment, converged or not.
//!
//! The bound honours: requests of every resource, allocatable less the daemons of each type, prices and availability of
//! offerings, node selectors, affinity and taints of pods against pools and types, and anti-affinity on hosts of pods
//! against their own kind. It ignores, and may therefore be lower than the best real fleet: that machines come in whole
//! numbers, topology spread, pod affinity, anti-affinity between different kinds or on other keys, host ports, volumes,
//! limits, `minValues` and the least number of types, preferences.

mod filling;
mod market;
mod master;

use planner::Snapshot;

pub use filling::Filling;
pub use market::{Item, Machine, Market};

/// Search steps for one machine in one round; more when rounds find nothing new.
const STEPS: [u64; 3] = [300, 3_000, 20_000];
/// Rounds that the search may take in all.
const ROUNDS: usize = 150;
/// How close worths must come to the master program's optimum, as a share of it.
const CLOSE: f64 = 1e-3;

/// A proven bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// No fleet costs less, dollars per hour.
    pub dollars: f64,
    /// The linear program's optimum is not above this: how much a longer search could still add.
    pub ceiling: f64,
    /// Rounds of column generation.
    pub rounds: usize,
}

/// The bound of a snapshot without nodes.
///
/// # Errors
/// When there are nodes already, when a pod fits no machine, or when the linear program cannot be solved.
pub fn of_snapshot(snapshot: &Snapshot) -> anyhow::Result<Bound> {
    of_market(&Market::of(snapshot)?)
}

/// The bound of a market.
///
/// # Errors
/// As [`of_snapshot`].
pub fn of_market(market: &Market) -> anyhow::Result<Bound> {
    let mut columns = master::Columns::singles(market);
    let mut searches: Vec<filling::Search<'_>> =
        market.machines.iter().map(|machine| filling::Search::new(machine, &market.items)).collect();
    let mut best = Bound { dollars: 0.0, ceiling: f64::INFINITY, rounds: 0 };
    let mut effort = 0;
    for round in 1..=ROUNDS {
        let (worths, ceiling) = columns.solve(market)?;
        let found: Vec<Filling> = searches.iter_mut().map(|it| it.best(&worths, STEPS[effort])).collect();
        best.rounds = round;
        best.ceiling = best.ceiling.min(ceiling);
        best.dollars = best.dollars.max(proven(market, &worths, &found));
        let added = columns.add(market, &worths, found);
        if best.ceiling - best.dollars <= CLOSE * best.ceiling {
            break;
        }
        match (added, effort + 1 < STEPS.len()) {
            (true, _) => {}
            (false, true) => effort += 1,
            (false, false) => break,
        }
    }
    Ok(best)
}

/// The pods' worth once it is scaled down until no machine can be filled for more than it costs.
fn proven(market: &Market, worths: &[f64], found: &[Filling]) -> f64 {
    let scale = market.machines.iter().zip(found).map(|(machine, filling)| machine.price / filling.at_most);
    let scale = scale.fold(1.0, f64::min);
    let total: f64 = market.items.iter().zip(worths).map(|(item, worth)| item.count * worth).sum();
    // Sums of doubles err by far less than this.
    total * scale * (1.0 - 1e-9)
}
