//! Ages of the index's kinds: the time since the API server last confirmed that a watch has delivered everything.
//!
//! A watch may fail for hours while writes succeed: RBAC that someone changed, a starved priority level, a broken conversion. The
//! index then shows nodes as empty that have pods. Decisions that remove something need a current view.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use crate::metrics;
use crate::metrics::gauge_set::Sample;

/// Default of the age above which a kind is stale. A watch is confirmed at least every [`crate::informer::watch::RENEWAL`].
pub const DEFAULT_MAX_AGE: SignedDuration = SignedDuration::from_mins(3);

/// Last confirmation of each watched kind. Kinds without a watch are always current.
#[derive(Debug)]
pub struct ViewAges {
    max_age: SignedDuration,
    confirmed: Mutex<BTreeMap<String, Timestamp>>,
}

/// A kind whose view is too old for decisions that remove something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaleKind {
    /// Kind, such as `Pod`.
    pub kind: String,
    /// Last confirmation.
    pub since: Timestamp,
}

impl Default for ViewAges {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_AGE)
    }
}

impl ViewAges {
    /// Creates ages without a watched kind. Above `max_age` a kind is stale.
    #[must_use]
    pub fn new(max_age: SignedDuration) -> Self {
        Self { max_age, confirmed: Mutex::default() }
    }

    /// Returns the age above which a kind is stale.
    #[must_use]
    pub fn max_age(&self) -> SignedDuration {
        self.max_age
    }

    /// Records that the API server confirmed the view of `kind`, or that its watch begins.
    pub fn confirm(&self, kind: &str, now: Timestamp) {
        let mut confirmed = self.confirmed.lock();
        match confirmed.get_mut(kind) {
            Some(last) => *last = now,
            None => drop(confirmed.insert(kind.to_owned(), now)),
        }
    }

    /// Returns the stale kinds.
    #[must_use]
    pub fn stale(&self, now: Timestamp) -> Vec<StaleKind> {
        let confirmed = self.confirmed.lock();
        let stale = confirmed.iter().filter(|(_, since)| now.duration_since(**since) > self.max_age);
        stale.map(|(kind, since)| StaleKind { kind: kind.clone(), since: *since }).collect()
    }

    /// Reports whether no kind is stale.
    #[must_use]
    pub fn are_current(&self, now: Timestamp) -> bool {
        self.stale(now).is_empty()
    }

    /// Returns the age of the youngest kind; `None` without a watch.
    #[must_use]
    pub fn youngest(&self, now: Timestamp) -> Option<SignedDuration> {
        self.confirmed.lock().values().max().map(|since| now.duration_since(*since))
    }

    /// Returns the age of each kind for the metrics.
    #[must_use]
    pub fn samples(&self, now: Timestamp) -> Vec<Sample> {
        let confirmed = self.confirmed.lock();
        let sample = |(kind, since): (&String, &Timestamp)| {
            let age = now.duration_since(*since).as_secs_f64().max(0.0);
            Sample::new(&metrics::WATCH_AGE, metrics::ByKind { kind }, age)
        };
        confirmed.iter().map(sample).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{SignedDuration, StaleKind, ViewAges};
    use crate::fixture::at;

    #[test]
    fn stale_returns_kinds_without_a_confirmation_for_three_minutes() {
        let ages = ViewAges::default();
        assert!(ages.are_current(at(1_000)), "without a watch everything is current");
        ages.confirm("Pod", at(0));
        ages.confirm("Node", at(0));
        ages.confirm("Node", at(100));
        assert_eq!(ages.stale(at(180)), []);
        assert_eq!(ages.stale(at(181)), [StaleKind { kind: "Pod".to_owned(), since: at(0) }]);
        assert_eq!(ages.youngest(at(181)), Some(SignedDuration::from_secs(81)));
        ages.confirm("Pod", at(182));
        assert!(ages.are_current(at(183)));
    }

    #[test]
    fn stale_depends_on_the_configured_age() {
        let ages = ViewAges::new(SignedDuration::from_mins(10));
        ages.confirm("Pod", at(0));
        assert!(ages.are_current(at(600)));
        assert_eq!(ages.stale(at(601)).len(), 1);
    }

    #[test]
    fn samples_have_the_age_of_each_kind() {
        let ages = ViewAges::default();
        ages.confirm("Pod", at(0));
        ages.confirm("Node", at(100));
        let values: Vec<f64> = ages.samples(at(120)).iter().map(|sample| sample.value).collect();
        assert_eq!(values, [20.0, 120.0]);
    }
}
