//! Comparison of a run with hostile nodes with the same run without them.

use std::collections::BTreeMap;

use controller::capacity::offerings::Offerings;
use jiff::Timestamp;

/// Additional series that hostile nodes may cause: those of the replaced nodes, and names up to the limit of each group.
const SERIES: usize = 1500;
/// Additional events, for each hostile node.
const EVENTS: usize = 1000;
/// Additional instances: a replacement for each hostile node, and one more for pods that left it.
const INSTANCES: usize = 2;
/// Maximum size of an object that the controller writes, in bytes.
const OBJECT: usize = 32 << 10;

/// Facts about one run.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Violated invariants.
    pub violations: Vec<String>,
    /// Number of hostile nodes.
    pub hostile: usize,
    /// Amounts and offerings of each instance type, as text.
    pub types: BTreeMap<String, String>,
    /// Highest number of series of a scrape.
    pub series: usize,
    /// Number of events.
    pub events: usize,
    /// Number of launched instances.
    pub instances: usize,
    /// Largest NodeClaim or NodePool, with its size in bytes.
    pub largest: (String, usize),
    /// Counted panics.
    pub panics: Vec<String>,
}

impl Outcome {
    /// Returns the violations, and what this run has that the honest one does not have.
    pub fn differences(self, honest: &Self) -> Vec<String> {
        let mut found = self.violations;
        let mut at_most = |what: &str, number: usize, limit: usize| {
            if number > limit {
                found.push(format!("{number} {what}, at most {limit} are permitted"));
            }
        };
        at_most("series", self.series, honest.series + SERIES);
        at_most("events", self.events, honest.events + EVENTS * self.hostile);
        at_most("instances", self.instances, honest.instances + INSTANCES * self.hostile);
        at_most(&format!("bytes of {}", self.largest.0), self.largest.1, OBJECT);
        found.extend(self.panics.into_iter().map(|line| format!("panic: {line}")));
        let learned = self.types.iter().filter(|(name, known)| honest.types.get(*name) != Some(*known));
        found.extend(learned.map(|(name, known)| {
            let honest = honest.types.get(name).map_or("nothing", String::as_str);
            format!("learned from a hostile node of type {name}:\n  {known}\nwithout it:\n  {honest}")
        }));
        found
    }
}

/// Returns what the controller knows about each instance type of the EC2NodeClass.
pub fn types(offerings: &Offerings, now: Timestamp) -> BTreeMap<String, String> {
    let Some(catalogue) = offerings.catalogue("default", now) else { return BTreeMap::new() };
    let known = catalogue.types.iter().map(|kind| {
        let offerings: Vec<_> = kind.offerings.iter().map(|it| (&it.zone, it.capacity_type, it.available)).collect();
        (kind.name.to_string(), format!("{:?} {:?} {offerings:?}", kind.capacity, kind.allocatable))
    });
    known.collect()
}
