//! Reports of the nodes of one instance type about one amount, and the one that counts.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use super::BELIEVED;

/// Minimum age at which an equal reading renews an old one. The delay avoids writes while many nodes of a type start.
const RENEWED: SignedDuration = SignedDuration::from_hours(24);

/// The two smallest amounts that different nodes of the type reported, and the two largest where they differ much from these.
///
/// The second smallest counts: pods can run with a low amount, but not with a high one, and one node that lies must not take its
/// type away from the whole cluster. Where two nodes report much more than two others, the second largest counts: equal nodes
/// have nearly equal amounts, so two of them lie. It counts up to the estimate, because which two lie is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Readings {
    #[serde(flatten)]
    smallest: Reading,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    second: Option<Reading>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    largest: Vec<Reading>,
}

/// The amount that one node reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Reading {
    /// Amount in the planner's unit.
    #[serde(alias = "memory")]
    pub(super) amount: i64,
    /// Time in seconds since 1970.
    pub(super) at: i64,
    /// Number of the node.
    #[serde(default)]
    pub(super) node: u32,
}

/// The amount of a type that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    /// Amount in the planner's unit.
    pub(super) value: i64,
    /// True if two nodes reported much more than two others.
    pub(super) contested: bool,
}

impl Readings {
    /// Returns the smallest and the largest believed readings of different nodes among these. A node replaces its own reading.
    pub(super) fn new(held: Option<&Self>, found: Reading, now: Timestamp) -> Self {
        let others = held.into_iter().flat_map(Self::all).filter(|it| it.node != found.node && it.is_believed(now));
        let mut all: Vec<Reading> = others.copied().chain([found]).collect();
        all.sort_unstable();
        let smallest = all[0];
        let mut largest: Vec<Reading> = all.iter().skip(2).copied().filter(|it| it.differs_much(smallest)).collect();
        largest.drain(..largest.len().saturating_sub(2));
        Self { smallest, second: all.get(1).copied(), largest }
    }

    /// Returns the readings from the smallest to the largest.
    fn all(&self) -> impl Iterator<Item = &Reading> {
        [&self.smallest].into_iter().chain(&self.second).chain(&self.largest)
    }

    /// Returns the amount that counts; `None` until two nodes have reported one.
    pub(super) fn amount(&self, now: Timestamp) -> Option<Amount> {
        let believed: Vec<&Reading> = self.believed(now).collect();
        match believed[..] {
            [_, second, .., second_largest, _] if second_largest.differs_much(*second) => {
                Some(Amount { value: second_largest.amount, contested: true })
            }
            [_, second, ..] => Some(Amount { value: second.amount, contested: false }),
            _ => None,
        }
    }

    fn believed(&self, now: Timestamp) -> impl Iterator<Item = &Reading> {
        self.all().filter(move |reading| reading.is_believed(now))
    }

    /// Reports whether the other readings have the same nodes and amounts, and are not worth a write.
    pub(super) fn is_like(&self, other: &Self, now: Timestamp) -> bool {
        let like = |one: Reading, other: Reading| {
            (one.amount, one.node) == (other.amount, other.node) && one.age(now) < RENEWED
        };
        self.all().count() == other.all().count() && self.all().zip(other.all()).all(|(one, other)| like(*one, *other))
    }

    pub(super) fn newest(&self) -> i64 {
        self.all().map(|reading| reading.at).fold(self.smallest.at, i64::max)
    }
}

impl Reading {
    fn age(&self, now: Timestamp) -> SignedDuration {
        SignedDuration::from_secs(now.as_second().saturating_sub(self.at))
    }

    /// Reports whether this amount is larger than the other one by more than a tenth, so that equal nodes cannot have both.
    fn differs_much(&self, smaller: Self) -> bool {
        self.amount > smaller.amount.saturating_add(smaller.amount / 10)
    }

    fn is_believed(&self, now: Timestamp) -> bool {
        self.age(now) < BELIEVED
    }
}
