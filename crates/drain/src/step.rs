//! Whose turn it is: what a pod's next step depends on beside the pod, and the choice among those that are due.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::budget::Budgets;
use crate::moment::Millis;
use crate::pod::Group;
use crate::settings::Settings;
use crate::tracked_pod::{EvictionAttempt, NextStep, RemovalMethod, TrackedPod};

/// How far a refusal moves a pod back behind those whose last safe moment is later.
const STEP_BACK: Duration = Duration::from_millis(250);

/// One look at all pods of a drain.
pub(crate) struct StepContext<'a> {
    pub(crate) settings: &'a Settings,
    budgets: &'a Budgets,
    /// Budgets on whose behalf a pod is being asked.
    asked: BTreeSet<&'a str>,
    /// The first group that still has pods to go.
    pub(crate) first: Group,
    pub(crate) started: Millis,
    /// From when on pods may be evicted, as far as the node is concerned.
    pub(crate) open: Millis,
    pub(crate) relisted: Millis,
    pub(crate) now: Millis,
}

/// The moments that a turn depends on.
#[derive(Clone, Copy)]
pub(crate) struct Moments {
    pub(crate) started: Millis,
    pub(crate) open: Millis,
    pub(crate) relisted: Millis,
    pub(crate) now: Millis,
}

impl<'a> StepContext<'a> {
    /// Looks at `pods`; `None` when none of them has to go.
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

    /// When a pod that this budget holds may be asked; `None` while another one of its pods is.
    pub(crate) fn probe(&self, budget: &str) -> Option<Millis> {
        (!self.asked.contains(budget)).then(|| self.budgets.next(budget))
    }

    /// The requests to send now, by UID: deletions first, then those who were asked least, and one pod for each budget that refused.
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

    /// The earliest moment to come at which a pod has something to ask for.
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

    /// Who goes first: who was never refused, by priority and size, or by grace when time is short; then whose last safe moment comes
    /// first, since a budget lets them go one by one. Each refusal moves a pod back a little, so that nobody starves. Where small pods
    /// came first, kube-scheduler would spread their successors over the room that large ones need in one piece.
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
