//! What any fleet for a snapshot's pods costs at least: column generation over all ways to fill one machine.
//!
//! A fleet is so and so many machines of each type, each filled in some way. Letting the numbers be fractions gives a
//! linear program whose optimum no real fleet can undercut. Its dual gives every pod a worth such that no way to fill a
//! machine is worth more than the machine costs; the pods' worth together is the bound. We look for such worths
//! directly. The first are those of a fleet without waste (`fluid`): they need no search and are close already. Then the
//! master program, which knows some fillings (`master`, the first of them from `fleet`), names worths near the best ones
//! so far; a search finds fillings that are worth too much (`filling`), and they are added until there are none. What is
//! near is settled first and then ever more, for a master program that knows little names worths that are far off.
//! Because the search also proves how much any filling can be worth at most, scaling the worths down gives a valid bound
//! at every moment, converged or not.
//!
//! The bound honours: requests of every resource, allocatable less the daemons of each type, prices and availability of
//! offerings, node selectors, affinity and taints of pods against pools and types, and anti-affinity on hosts of pods
//! against their own kind. It ignores, and may therefore be lower than the best real fleet: that machines come in whole
//! numbers, topology spread, pod affinity, anti-affinity between different kinds or on other keys, host ports, volumes,
//! limits, `minValues` and the least number of types, preferences.

mod filling;
mod fleet;
mod fluid;
mod greedy;
mod market;
mod master;
mod walk;

use planner::Snapshot;

pub use filling::Filling;
pub use market::{Item, Machine, Market};

/// Search steps for one machine in one round; more when rounds find nothing new.
const STEPS: [u64; 5] = [300, 3_000, 30_000, 300_000, 1_000_000];
/// Rounds that the search may take in all.
const ROUNDS: usize = 200;
/// How close the bound must come to the linear program's optimum, as a share of it.
const CLOSE: f64 = 1e-3;
/// The share of a machine's price by which a filling may be worth more before it is looked for.
const PATIENCE: f64 = 1e-4;
/// How far from the proven worths others are looked for at first, as a share of them.
const REACH: f64 = 0.02;
/// By what that grows when nothing more is found within.
const GROWTH: f64 = 4.0;

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

impl Bound {
    /// By what share a longer search could raise the bound at most.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.ceiling / self.dollars - 1.0
    }

    /// Whether a longer search would hardly change anything.
    #[must_use]
    pub fn is_close(&self) -> bool {
        self.dollars >= self.ceiling * (1.0 - CLOSE)
    }
}

/// The bound of a snapshot without nodes.
///
/// # Errors
/// When there are nodes already, when a pod fits no machine, or when a linear program cannot be solved.
pub fn of_snapshot(snapshot: &Snapshot) -> anyhow::Result<Bound> {
    of_market(&Market::of(snapshot)?)
}

/// The bound of a market.
///
/// # Errors
/// As [`of_snapshot`].
pub fn of_market(market: &Market) -> anyhow::Result<Bound> {
    within(market, ROUNDS)
}

/// The bound that so many rounds of the search prove.
///
/// # Errors
/// As [`of_snapshot`].
pub fn within(market: &Market, rounds: usize) -> anyhow::Result<Bound> {
    let mut hunt = Hunt::new(market)?;
    while hunt.best.rounds < rounds && !hunt.best.is_close() && hunt.round()? {}
    Ok(hunt.best)
}

/// The worths that are proven so far, and the fillings that are known.
struct Hunt<'a> {
    market: &'a Market,
    searches: Vec<filling::Search<'a>>,
    columns: master::Columns,
    /// Dollars per hour for a pod of each item. No filling of any machine is worth more than the machine costs.
    proven: Vec<f64>,
    best: Bound,
    reach: f64,
    effort: usize,
}

impl<'a> Hunt<'a> {
    fn new(market: &'a Market) -> anyhow::Result<Self> {
        let proven = fluid::worths(market)?;
        let mut searches: Vec<filling::Search<'a>> =
            market.machines.iter().map(|machine| filling::Search::new(machine, &market.items)).collect();
        let columns = fleet::columns(market, &mut searches, &proven);
        let (_, ceiling) = columns.solve(market, None)?;
        let best = Bound { dollars: total(market, &proven), ceiling, rounds: 0 };
        Ok(Self { market, searches, columns, proven, best, reach: REACH, effort: 0 })
    }

    /// Tries one more set of worths; whether there is hope in another.
    fn round(&mut self) -> anyhow::Result<bool> {
        self.best.rounds += 1;
        let bounded = self.reach < 1.0;
        let near = bounded.then_some((self.proven.as_slice(), self.reach));
        let (tried, promised) = self.columns.solve(self.market, near)?;
        let most: Vec<f64> = self.market.items.iter().map(|item| item.most).collect();
        let steps = STEPS[self.effort];
        let search = |it: &mut filling::Search<'_>| it.best(&tried, &most, it.price() * (1.0 + PATIENCE), steps);
        let found: Vec<Filling> = self.searches.iter_mut().map(search).collect();
        self.prove(&tried, &found);
        let added = self.columns.add(self.market, &tried, found);
        if self.best.dollars < promised * (1.0 - 0.7 * CLOSE) && (added || self.effort + 1 < STEPS.len()) {
            self.effort += usize::from(!added);
            return Ok(true);
        }
        // What is near is settled, as far as it can be.
        let (_, ceiling) = self.columns.solve(self.market, None)?;
        self.best.ceiling = self.best.ceiling.min(ceiling);
        (self.reach, self.effort) = (self.reach * GROWTH, 0);
        Ok(bounded)
    }

    /// Scales worths down until no machine can be filled for more than it costs; the best that are known are kept.
    fn prove(&mut self, tried: &[f64], found: &[Filling]) {
        let mut worths = tried.to_vec();
        for (machine, filling) in self.market.machines.iter().zip(found) {
            let scale = (machine.price / filling.at_most).min(1.0);
            let items = worths.iter_mut().zip(tried).zip(&machine.takes).filter(|(_, takes)| **takes);
            items.for_each(|((worth, tried), _)| *worth = worth.min(tried * scale));
        }
        let dollars = total(self.market, &worths);
        if dollars > self.best.dollars {
            self.best.dollars = dollars;
            self.proven = worths;
        }
    }
}

/// What all pods are worth together, less far more than what sums of doubles err by.
fn total(market: &Market, worths: &[f64]) -> f64 {
    market.items.iter().zip(worths).map(|(item, worth)| item.count * worth).sum::<f64>() * (1.0 - 1e-9)
}
