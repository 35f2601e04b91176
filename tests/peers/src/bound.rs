//! Lower bound for the cost of any fleet for a snapshot's pods: column generation over all ways to fill one node.
//!
//! A fleet is a number of nodes of each type, each with a set of pods. With fractional numbers, the cost is a linear program,
//! and no real fleet can cost less than its optimum. Its dual assigns a value to every pod such that no filling of a node has a
//! greater value than the price of the node. The sum of the pods' values is the bound.
//!
//! The code searches for such values directly. The first values are those of a fleet without waste (`fluid`), which needs no
//! search and is already close. Then the master program (`master`), which knows some fillings (the first of them from `fleet`),
//! computes values near the best ones so far. A search (`filling`) finds fillings whose value exceeds the price, and they are
//! added until there are none.
//!
//! The neighbourhood of the best values starts small and grows, because a master program with few fillings computes values that
//! are far off. The search also proves the greatest value of any filling. Scaling the values down by it gives a valid bound at
//! every moment, converged or not.
//!
//! The bound respects:
//!
//! - requests of every resource, and allocatable less the DaemonSet overhead of each type
//! - prices and availability of offerings
//! - node selectors, affinity and tolerations of pods against NodePools and types
//! - anti-affinity on hosts of pods against their own kind
//!
//! The bound may be lower than the best real fleet, because it ignores:
//!
//! - whole numbers of nodes
//! - topology spread, pod affinity, and anti-affinity between different kinds or on other keys
//! - host ports, volumes and limits
//! - `minValues`, the least number of types, and preferences

mod filling;
mod fleet;
mod fluid;
mod greedy;
mod market;
mod master;
mod parts;
mod walk;
mod whole;

use planner::Snapshot;

pub use filling::Filling;
pub use market::{Item, Machine, Market};
pub use parts::Part;
pub use whole::{of_constrained, of_part};

/// Search steps for one node in one round; the number rises when rounds find nothing new.
const STEPS: [u64; 5] = [300, 3_000, 30_000, 300_000, 1_000_000];
/// Most rounds of the search.
const ROUNDS: usize = 200;
/// Required distance of the bound from the optimum of the linear program, as a share of the bound.
const CLOSE: f64 = 1e-3;
/// Share of a node's price by which a filling's value must exceed the price to be searched for.
const PATIENCE: f64 = 1e-4;
/// First size of the neighbourhood around the proven values, as a share of them.
const REACH: f64 = 0.02;
/// Factor by which the neighbourhood grows when nothing more is found within it.
const GROWTH: f64 = 4.0;

/// Proven bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Lower bound for the cost of any fleet, in dollars per hour.
    pub dollars: f64,
    /// Upper bound for the optimum of the linear program: a longer search cannot raise the bound above it.
    pub ceiling: f64,
    /// Number of rounds of column generation.
    pub rounds: usize,
}

impl Bound {
    /// Returns the largest share by which a longer search could raise the bound.
    #[must_use]
    pub fn gap(&self) -> f64 {
        self.ceiling / self.dollars - 1.0
    }

    /// Reports whether a longer search would hardly raise the bound.
    #[must_use]
    pub fn is_close(&self) -> bool {
        self.dollars >= self.ceiling * (1.0 - CLOSE)
    }
}

/// Returns the bound of a snapshot without nodes.
///
/// # Errors
/// Returns an error if there are nodes already, if a pod fits no instance type, or if a linear program cannot be solved.
pub fn of_snapshot(snapshot: &Snapshot) -> anyhow::Result<Bound> {
    of_market(&Market::of(snapshot)?)
}

/// Returns the bound of a set of pods and offerings.
///
/// # Errors
/// Returns the errors of [`of_snapshot`].
pub fn of_market(market: &Market) -> anyhow::Result<Bound> {
    within(market, ROUNDS)
}

/// Returns the bound that `rounds` rounds of the search prove.
///
/// # Errors
/// Returns the errors of [`of_snapshot`].
pub fn within(market: &Market, rounds: usize) -> anyhow::Result<Bound> {
    let mut hunt = Hunt::new(market)?;
    while hunt.best.rounds < rounds && !hunt.best.is_close() && hunt.round()? {}
    Ok(hunt.best)
}

/// State of the search: the values that are proven so far, and the known fillings.
struct Hunt<'a> {
    market: &'a Market,
    searches: Vec<filling::Search<'a>>,
    columns: master::Columns,
    /// Value of a pod of each item, in dollars per hour. No filling of any node has a greater value than the node's price.
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

    /// Tries one more set of values; returns whether another round may improve the bound.
    fn round(&mut self) -> anyhow::Result<bool> {
        self.best.rounds += 1;
        let bounded = self.reach < 1.0;
        let near = bounded.then_some((self.proven.as_slice(), self.reach));
        let (tried, promised) = self.columns.solve(self.market, near)?;
        let most = self.market.limits();
        let steps = STEPS[self.effort];
        let search = |it: &mut filling::Search<'_>| it.best(&tried, &most, it.price() * (1.0 + PATIENCE), steps);
        let found: Vec<Filling> = self.searches.iter_mut().map(search).collect();
        self.prove(&tried, &found);
        let added = self.columns.add(self.market, &tried, found);
        if self.best.dollars < promised * (1.0 - 0.7 * CLOSE) && (added || self.effort + 1 < STEPS.len()) {
            self.effort += usize::from(!added);
            return Ok(true);
        }
        // The search of this neighbourhood is complete, as far as possible.
        let (_, ceiling) = self.columns.solve(self.market, None)?;
        self.best.ceiling = self.best.ceiling.min(ceiling);
        (self.reach, self.effort) = (self.reach * GROWTH, 0);
        Ok(bounded)
    }

    /// Scales values down until no filling of a node has a greater value than the node's price; keeps the best known values.
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

/// Returns the value of all pods, less a margin far above the rounding error of sums of doubles.
fn total(market: &Market, worths: &[f64]) -> f64 {
    market.items.iter().zip(worths).map(|(item, worth)| item.count * worth).sum::<f64>() * (1.0 - 1e-9)
}
