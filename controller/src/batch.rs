//! When to plan: a burst of pods should meet one plan, a lone pod should not wait.
//!
//! The window opens with the first trigger and closes when nothing new came for the idle time, or at the
//! maximum. A trigger that was seen in this window already does not hold it open. Pods of one owner are one trigger: kube-scheduler may
//! refuse a thousand of them for seconds, and the first refusal tells what becomes of them all. While its owner makes more of
//! them, a plan waits.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

/// Karpenter's batch settings.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Close after this long without a new trigger.
    pub idle: Duration,
    /// Close after this long in any case.
    pub max: Duration,
}

/// What asks for a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Something that no plan has seen, by a name of its own.
    New(String),
    /// The scheduler has refused a pod.
    Refused {
        /// Its UID.
        pod: String,
        /// The UID of its owner; its own where it has none.
        owner: String,
    },
    /// There is another pod of this owner.
    Another {
        /// Its UID.
        owner: String,
    },
    /// A pod that a plan has answered is refused again: the next plan may take its time.
    Again,
}

/// The triggers of one window.
#[derive(Debug)]
pub struct Batch {
    window: Window,
    seen: BTreeSet<String>,
    opened: Option<Instant>,
    last_new: Option<Instant>,
}

impl Batch {
    /// A batch with no window open.
    #[must_use]
    pub fn new(window: Window) -> Self {
        Self { window, seen: BTreeSet::new(), opened: None, last_new: None }
    }

    /// Notes a trigger, such as the UID of a pod's owner.
    pub fn trigger(&mut self, id: &str, now: Instant) {
        self.opened.get_or_insert(now);
        if self.seen.insert(id.to_owned()) {
            self.last_new = Some(now);
        }
    }

    /// Holds the window open if this trigger is in it.
    pub fn hold(&mut self, id: &str, now: Instant) {
        if self.seen.contains(id) {
            self.last_new = Some(now);
        }
    }

    /// When the window closes; `None` while none is open.
    #[must_use]
    pub fn closes(&self) -> Option<Instant> {
        let (opened, last_new) = (self.opened?, self.last_new?);
        Some((last_new + self.window.idle).min(opened + self.window.max))
    }

    /// Closes the window: the next trigger opens another one.
    pub fn close(&mut self) {
        self.seen.clear();
        self.opened = None;
        self.last_new = None;
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Duration, Instant, Window};

    fn batch() -> Batch {
        Batch::new(Window { idle: Duration::from_secs(1), max: Duration::from_secs(10) })
    }

    #[test]
    fn the_same_pod_does_not_hold_the_window_open_but_a_new_one_does() {
        let start = Instant::now();
        let mut batch = batch();
        batch.trigger("a", start);
        batch.trigger("a", start + Duration::from_millis(500));
        assert_eq!(batch.closes(), Some(start + Duration::from_secs(1)));
        batch.trigger("b", start + Duration::from_millis(900));
        assert_eq!(batch.closes(), Some(start + Duration::from_millis(1900)));
    }

    #[test]
    fn more_of_what_is_in_the_window_holds_it_open_and_nothing_else_opens_it() {
        let start = Instant::now();
        let mut batch = batch();
        batch.hold("a", start);
        assert_eq!(batch.closes(), None);
        batch.trigger("a", start);
        batch.hold("b", start + Duration::from_millis(300));
        assert_eq!(batch.closes(), Some(start + Duration::from_secs(1)));
        batch.hold("a", start + Duration::from_millis(500));
        assert_eq!(batch.closes(), Some(start + Duration::from_millis(1500)));
    }

    #[test]
    fn a_steady_stream_is_cut_at_the_maximum() {
        let start = Instant::now();
        let mut batch = batch();
        for step in 0..30 {
            batch.trigger(&step.to_string(), start + Duration::from_millis(500 * step));
        }
        assert_eq!(batch.closes(), Some(start + Duration::from_secs(10)));
    }

    #[test]
    fn a_closed_window_opens_again_with_the_same_pod() {
        let start = Instant::now();
        let mut batch = batch();
        batch.trigger("a", start);
        batch.close();
        assert_eq!(batch.closes(), None);
        batch.trigger("a", start + Duration::from_secs(5));
        assert_eq!(batch.closes(), Some(start + Duration::from_secs(6)));
    }
}
