//! Selection of the next requests: the context of a pod's next step, and the order of due requests.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::budget::Budgets;
use crate::moment::Millis;
use crate::pod::Group;
use crate::settings::Settings;
use crate::tracked_pod::{EvictionAttempt, NextStep, RemovalMethod, TrackedPod};

/// Penalty per refusal: a refused pod moves back behind pods with a later last safe time.
const STEP_BACK: Duration = Duration::from_millis(250);

/// View of all pods of a drain at one time.
pub(crate) struct StepContext<'a> {
    pub(crate) settings: &'a Settings,
    budgets: &'a Budgets,
    /// Budgets for which an eviction is outstanding.
    asked: BTreeSet<&'a str>,
    /// First group that still has pods that must leave.
    pub(crate) first: Group,
    pub(crate) started: Millis,
    /// Time from which the node's state permits evictions.
    pub(crate) open: Millis,
    pub(crate) relisted: Millis,
    pub(crate) now: Millis,
}

/// Times that the context depends on.
#[derive(Clone, Copy)]
pub(crate) struct Moments {
    pub(crate) started: Millis,
    pub(crate) open: Millis,
    pub(crate) relisted: Millis,
    pub(crate) now: Millis,
}

impl<'a> StepContext<'a> {
    /// Creates the context for `pods`; `None` if no pod must leave.
    pub(crate) fn new(
        settings: &'a Settings,
        budgets: &'a Budgets,
        pods: impl Iterator<Item = &'a TrackedPod> + Clone,
        moments: Moments,
    ) -> Option<Self> {
        let Moments { started, open, relisted, now } = moments;
        let waiting = pods.clone().filter(|tracked| tracked.waits(settings, now));
        let first = waiting.map(|tracked| tracked.pod.group()).min()?;
        let mut asked = BTreeSet::new();
        asked.extend(pods.filter(|tracked| tracked.asked().is_some()).filter_map(TrackedPod::held_by));
        Some(Self { settings, budgets, asked, first, started, open, relisted, now })
    }

    /// Returns the time at which a pod that this budget blocks may be evicted again; `None` while another of its pods has an
    /// outstanding request.
    pub(crate) fn probe(&self, budget: &str) -> Option<Millis> {
        (!self.asked.contains(budget)).then(|| self.budgets.next(budget))
    }

    /// Returns the requests to send now, by UID: deletions first, then pods with the fewest refusals, and one pod for each
    /// budget that refused.
    pub(crate) fn choose(&self, pods: impl Iterator<Item = &'a TrackedPod> + Clone) -> Vec<(String, EvictionAttempt)> {
        let mut due: Vec<(&TrackedPod, EvictionAttempt)> =
            pods.clone().filter_map(|tracked| self.due(tracked)).collect();
        due.sort_by_cached_key(|(tracked, ask)| self.rank(tracked, ask.how));
        let mut budgets = BTreeSet::new();
        let mut free = [RemovalMethod::Delete, RemovalMethod::Evict].map(|how| (how, self.free(pods.clone(), how)));
        due.retain(|(tracked, ask)| {
            let probed =
                ask.how == RemovalMethod::Evict && tracked.held_by().is_some_and(|budget| !budgets.insert(budget));
            !probed && free.iter_mut().any(|(how, free)| *how == ask.how && take(free))
        });
        due.into_iter().map(|(tracked, ask)| (tracked.pod.uid.clone(), ask)).collect()
    }

    /// Returns the earliest future time at which a pod has a due request.
    pub(crate) fn later(&self, pods: impl Iterator<Item = &'a TrackedPod>) -> Option<Millis> {
        let moments = pods.filter_map(|tracked| match tracked.next(self) {
            NextStep::At(at) => Some(at),
            NextStep::Idle | NextStep::Due(_) => None,
        });
        moments.min()
    }

    fn due(&self, tracked: &'a TrackedPod) -> Option<(&'a TrackedPod, EvictionAttempt)> {
        match tracked.next(self) {
            NextStep::Due(ask) => Some((tracked, ask)),
            NextStep::Idle | NextStep::At(_) => None,
        }
    }

    /// Returns the order of a request. Pods without a refusal come first, by priority and size, or by grace period if time is
    /// short. Refused pods follow by their last safe time, because a budget releases them one by one. Each refusal moves a pod
    /// back a little, so that no pod starves. With small pods first, kube-scheduler would spread their successors over the
    /// capacity that large pods need in one piece.
    fn rank(&self, tracked: &TrackedPod, how: RemovalMethod) -> impl Ord + use<> {
        let last = tracked.switch(self.settings).unwrap_or_default();
        let refused = (tracked.attempts > 0).then(|| last + STEP_BACK.saturating_mul(tracked.attempts));
        let urgent = tracked.is_urgent(self.settings, self.now);
        let (priority, size) = if urgent { (i32::MIN, 0) } else { (tracked.pod.priority, tracked.pod.size) };
        (how, refused, priority, Reverse(size), Reverse(tracked.pod.grace_seconds), tracked.pod.uid.clone())
    }

    fn free(&self, pods: impl Iterator<Item = &'a TrackedPod>, how: RemovalMethod) -> usize {
        self.settings.abreast.max(1).saturating_sub(pods.filter(|tracked| tracked.asked() == Some(how)).count())
    }
}

fn take(free: &mut usize) -> bool {
    let some = *free > 0;
    *free = free.saturating_sub(1);
    some
}
