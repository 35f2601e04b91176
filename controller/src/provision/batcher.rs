//! Time of the next plan: one plan for a burst of pods, and no delay for a single pod.
//!
//! The window opens with the first trigger. The window closes after the idle time without a new trigger, or at the maximum. A
//! trigger that the window already contains does not extend it. Pods of one owner are one trigger: kube-scheduler may refuse a
//! thousand of them for seconds, and the first refusal stands for all. While the owner creates more pods, the plan waits. The
//! plan also waits while pods arrive faster than kube-scheduler tries them: pods that arrive together are packed together.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

/// Interval after which pending pods and disruption candidates are planned again, even without a change.
pub const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Karpenter's batch settings.
#[derive(Clone, Copy, Debug)]
pub struct BatchWindow {
    /// Time without a new trigger after which the window closes.
    pub idle: Duration,
    /// Time after which the window closes in any case.
    pub max: Duration,
}

/// Trigger of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanTrigger {
    /// Change that no plan has included, with a unique name.
    New(String),
    /// Refusal of a pod by kube-scheduler.
    Refused {
        /// UID of the pod.
        pod: String,
        /// UID of its owner, or of the pod if it has none.
        owner: String,
    },
    /// New pod that kube-scheduler has not tried yet.
    Another {
        /// UID of the pod.
        pod: String,
        /// UID of its owner, or of the pod if it has none.
        owner: String,
    },
    /// Repeated refusal of a pod that a plan has decided: the next plan may take its time.
    Again,
    /// End of a node's disruption: blocks by budgets or by relocated pods may be over. Also the departure of a pod from a node
    /// that is removed as soon as it is not needed.
    Freed,
}

/// Discards triggers as long as their sender exists. A replica that does not lead would collect them for days, and plans the whole
/// cluster as soon as it leads.
pub async fn discard_triggers(triggers: &mut UnboundedReceiver<PlanTrigger>) {
    while triggers.recv().await.is_some() {}
}

/// Triggers of one window.
#[derive(Debug)]
pub struct Batcher {
    window: BatchWindow,
    seen: BTreeSet<String>,
    opened: Option<Instant>,
    last_new: Option<Instant>,
    /// Pods that arrived while the window was open.
    arrivals: Vec<(String, Instant)>,
}

impl Batcher {
    /// Creates a batcher without an open window.
    #[must_use]
    pub fn new(window: BatchWindow) -> Self {
        Self { window, seen: BTreeSet::new(), opened: None, last_new: None, arrivals: Vec::new() }
    }

    /// Adds a trigger, such as the UID of a pod's owner.
    pub fn trigger(&mut self, id: &str, now: Instant) {
        self.opened.get_or_insert(now);
        if self.seen.insert(id.to_owned()) {
            self.last_new = Some(now);
        }
    }

    /// Adds a pod that kube-scheduler has not tried yet. The pod opens no window, and extends an open one at once if it
    /// contains the owner.
    pub fn arrive(&mut self, pod: &str, owner: &str, now: Instant) {
        if self.opened.is_none() {
            return;
        }
        self.arrivals.push((pod.to_owned(), now));
        if self.seen.contains(owner) {
            self.last_new = Some(now);
        }
    }

    /// Extends the window for the last arrived pod that kube-scheduler has not tried. While kube-scheduler keeps up, no such
    /// pod exists.
    pub fn hold(&mut self, is_awaiting_scheduler: impl Fn(&str) -> bool) {
        let last = self.arrivals.iter().rfind(|(pod, _)| is_awaiting_scheduler(pod));
        self.last_new = self.last_new.max(last.map(|(_, at)| *at));
    }

    /// Returns the time of the next plan, if time alone requires one at `due`. While pods arrive, the plan waits for the end of
    /// the window.
    #[must_use]
    pub fn wakes(&self, due: Instant) -> Instant {
        match self.closes() {
            Some(closes) if self.arrivals.is_empty() => closes.min(due),
            Some(closes) => closes,
            None => due,
        }
    }

    /// Returns the time at which the window closes, or `None` without an open window.
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
    use tokio::sync::mpsc::unbounded_channel;

    use super::{BatchWindow, Batcher, Duration, Instant, PlanTrigger, discard_triggers};

    fn batch() -> Batcher {
        Batcher::new(BatchWindow { idle: Duration::from_secs(1), max: Duration::from_secs(10) })
    }

    #[tokio::test]
    async fn discard_triggers_keeps_none_until_it_is_cancelled() {
        let (sender, mut triggers) = unbounded_channel();
        (0..1_000).for_each(|_| sender.send(PlanTrigger::Again).unwrap());
        // A poll of the channel may yield to other tasks after a part.
        while !triggers.is_empty() {
            tokio::select! {
                biased;
                () = discard_triggers(&mut triggers) => unreachable!("the sender exists"),
                () = tokio::task::yield_now() => {}
            }
        }
        sender.send(PlanTrigger::Freed).unwrap();
        assert_eq!(triggers.recv().await, Some(PlanTrigger::Freed));
    }

    #[test]
    fn trigger_extends_the_window_only_when_the_id_is_new() {
        let start = Instant::now();
        let mut batch = batch();
        batch.trigger("a", start);
        batch.trigger("a", start + Duration::from_millis(500));
        assert_eq!(batch.closes(), Some(start + Duration::from_secs(1)));
        batch.trigger("b", start + Duration::from_millis(900));
        assert_eq!(batch.closes(), Some(start + Duration::from_millis(1900)));
    }

    #[test]
    fn arrive_extends_the_window_when_it_contains_the_owner() {
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
    fn hold_extends_the_window_when_arrived_pods_are_untried() {
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
        assert_eq!(batch.closes(), Some(at(31_000)), "earlier triggers do not count");
    }

    #[test]
    fn wakes_waits_for_the_window_only_when_pods_arrive() {
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
    fn closes_returns_the_maximum_when_triggers_never_stop() {
        let start = Instant::now();
        let mut batch = batch();
        for step in 0..30 {
            batch.trigger(&step.to_string(), start + Duration::from_millis(500 * step));
        }
        assert_eq!(batch.closes(), Some(start + Duration::from_secs(10)));
    }

    #[test]
    fn trigger_opens_a_new_window_when_the_last_is_closed() {
        let start = Instant::now();
        let mut batch = batch();
        batch.trigger("a", start);
        batch.close();
        assert_eq!(batch.closes(), None);
        batch.trigger("a", start + Duration::from_secs(5));
        assert_eq!(batch.closes(), Some(start + Duration::from_secs(6)));
    }
}
