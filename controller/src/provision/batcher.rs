//! When to plan: a burst of pods should meet one plan, a lone pod should not wait.
//!
//! The window opens with the first trigger and closes when nothing new came for the idle time, or at the
//! maximum. A trigger that was seen in this window already does not hold it open. Pods of one owner are one trigger: kube-scheduler may
//! refuse a thousand of them for seconds, and the first refusal tells what becomes of them all. While its owner makes more of
//! them, a plan waits, and so it does while others come faster than kube-scheduler looks at them: what comes together is packed together.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

/// Waiting pods, and nodes that may go, are looked at again after this long even if nothing changes (core 2.1).
pub const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Karpenter's batch settings.
#[derive(Clone, Copy, Debug)]
pub struct BatchWindow {
    /// Close after this long without a new trigger.
    pub idle: Duration,
    /// Close after this long in any case.
    pub max: Duration,
}

/// What asks for a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanTrigger {
    /// Something that no plan has seen, by a name of its own.
    New(String),
    /// The scheduler has refused a pod.
    Refused {
        /// Its UID.
        pod: String,
        /// The UID of its owner; its own where it has none.
        owner: String,
    },
    /// There is another pod, which nobody has looked at yet.
    Another {
        /// Its UID.
        pod: String,
        /// The UID of its owner; its own where it has none.
        owner: String,
    },
    /// A pod that a plan has answered is refused again: the next plan may take its time.
    Again,
    /// A node that was disturbed does not count as that any more: what held others back, budgets or pods on their way, may be over. Or a
    /// pod left a node that may go as soon as it is not needed.
    Freed,
}

/// The triggers of one window.
#[derive(Debug)]
pub struct Batcher {
    window: BatchWindow,
    seen: BTreeSet<String>,
    opened: Option<Instant>,
    last_new: Option<Instant>,
    /// Pods that came while the window was open.
    arrivals: Vec<(String, Instant)>,
}

impl Batcher {
    /// A batch with no window open.
    #[must_use]
    pub fn new(window: BatchWindow) -> Self {
        Self { window, seen: BTreeSet::new(), opened: None, last_new: None, arrivals: Vec::new() }
    }

    /// Notes a trigger, such as the UID of a pod's owner.
    pub fn trigger(&mut self, id: &str, now: Instant) {
        self.opened.get_or_insert(now);
        if self.seen.insert(id.to_owned()) {
            self.last_new = Some(now);
        }
    }

    /// Notes a pod that nobody has looked at yet. It opens no window, and holds one open at once if its owner is in it.
    pub fn arrive(&mut self, pod: &str, owner: &str, now: Instant) {
        if self.opened.is_none() {
            return;
        }
        self.arrivals.push((pod.to_owned(), now));
        if self.seen.contains(owner) {
            self.last_new = Some(now);
        }
    }

    /// Holds the window open for the last pod that came and still waits to be looked at. Where kube-scheduler keeps up there is none.
    pub fn hold(&mut self, is_unjudged: impl Fn(&str) -> bool) {
        let last = self.arrivals.iter().rfind(|(pod, _)| is_unjudged(pod));
        self.last_new = self.last_new.max(last.map(|(_, at)| *at));
    }

    /// When to plan next, where time alone asks for a plan at `due`: that would come in the middle of what arrives, so the window's end
    /// is waited for.
    #[must_use]
    pub fn wakes(&self, due: Instant) -> Instant {
        match self.closes() {
            Some(closes) if self.arrivals.is_empty() => closes.min(due),
            Some(closes) => closes,
            None => due,
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
        self.arrivals.clear();
        self.opened = None;
        self.last_new = None;
    }
}

#[cfg(test)]
mod tests {
    use super::{BatchWindow, Batcher, Duration, Instant};

    fn batch() -> Batcher {
        Batcher::new(BatchWindow { idle: Duration::from_secs(1), max: Duration::from_secs(10) })
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
        batch.arrive("a-1", "a", start);
        assert_eq!(batch.closes(), None);
        batch.trigger("a", start);
        batch.arrive("b-1", "b", start + Duration::from_millis(300));
        assert_eq!(batch.closes(), Some(start + Duration::from_secs(1)));
        batch.arrive("a-2", "a", start + Duration::from_millis(500));
        assert_eq!(batch.closes(), Some(start + Duration::from_millis(1500)));
    }

    #[test]
    fn pods_that_nobody_has_looked_at_hold_the_window_open_until_no_more_come() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut batch = batch();
        batch.trigger("a", start);
        batch.arrive("b-1", "b", at(300));
        batch.arrive("c-1", "c", at(700));
        batch.hold(|_| false);
        assert_eq!(batch.closes(), Some(at(1000)), "they have found their place");
        batch.hold(|pod| pod == "b-1");
        assert_eq!(batch.closes(), Some(at(1300)));
        batch.hold(|_| true);
        assert_eq!(batch.closes(), Some(at(1700)));
        batch.hold(|pod| pod == "b-1");
        assert_eq!(batch.closes(), Some(at(1700)), "what was waited for is not taken back");
        batch.arrive("d-1", "d", at(20_000));
        batch.hold(|_| true);
        assert_eq!(batch.closes(), Some(at(10_000)));
        batch.close();
        batch.trigger("a", at(30_000));
        batch.hold(|_| true);
        assert_eq!(batch.closes(), Some(at(31_000)), "whoever came before is forgotten");
    }

    #[test]
    fn a_look_that_is_due_waits_for_pods_that_come_and_for_nothing_else() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut batch = batch();
        assert_eq!(batch.wakes(at(400)), at(400));
        batch.trigger("a", start);
        assert_eq!((batch.wakes(at(400)), batch.wakes(at(4000))), (at(400), at(1000)));
        batch.arrive("a-1", "a", at(200));
        assert_eq!((batch.wakes(at(400)), batch.wakes(at(4000))), (at(1200), at(1200)));
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
