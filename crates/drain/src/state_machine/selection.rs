//! Selection of the next requests: which of the due requests are sent now, and in which order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::eviction::budget::Budgets;
use crate::moment::Millis;
use crate::settings::Settings;
use crate::step_context::{StepContext, StepTimes};
use crate::tracked_pod::{EvictionAttempt, NextStep, RemovalMethod, TrackedPod};

/// Penalty per refusal: a refused pod moves back behind pods with a later last safe time.
const STEP_BACK: Duration = Duration::from_millis(250);

/// All pods of a drain at one time, of which at least one must leave.
pub(super) struct Selection<'a> {
    context: StepContext<'a>,
    pods: &'a BTreeMap<String, TrackedPod>,
}

impl<'a> Selection<'a> {
    /// Creates the selection among `pods`; `None` if no pod must leave.
    pub(super) fn new(
        settings: &'a Settings,
        budgets: &'a Budgets,
        pods: &'a BTreeMap<String, TrackedPod>,
        times: StepTimes,
    ) -> Option<Self> {
        let leaving = pods.values().filter(|tracked| tracked.must_leave(settings, times.now));
        let first = leaving.map(|tracked| tracked.pod.group()).min()?;
        let requested = pods.values().filter(|tracked| tracked.outstanding().is_some());
        let probed = requested.filter_map(TrackedPod::blocking_budget).collect();
        Some(Self { context: StepContext { settings, budgets, probed, first, times }, pods })
    }

    /// Returns the requests to send now, by UID: deletions first, then pods with the fewest refusals, and one pod for each
    /// budget that refused.
    pub(super) fn attempts(&self) -> Vec<(String, EvictionAttempt)> {
        let mut due: Vec<(&TrackedPod, EvictionAttempt)> =
            self.pods.values().filter_map(|tracked| self.due(tracked)).collect();
        due.sort_by_cached_key(|(tracked, attempt)| self.rank(tracked, attempt.method));
        let mut budgets = BTreeSet::new();
        let mut free = [RemovalMethod::Delete, RemovalMethod::Evict].map(|method| (method, self.free(method)));
        due.retain(|(tracked, attempt)| {
            let probed = attempt.method == RemovalMethod::Evict
                && tracked.blocking_budget().is_some_and(|budget| !budgets.insert(budget));
            !probed && free.iter_mut().any(|(method, free)| *method == attempt.method && take(free))
        });
        due.into_iter().map(|(tracked, attempt)| (tracked.pod.uid.clone(), attempt)).collect()
    }

    /// Returns the earliest future time at which a pod has a due request.
    pub(super) fn next_time(&self) -> Option<Millis> {
        let times = self.pods.values().filter_map(|tracked| match tracked.next(&self.context) {
            NextStep::At(at) => Some(at),
            NextStep::Idle | NextStep::Due(_) => None,
        });
        times.min()
    }

    fn due(&self, tracked: &'a TrackedPod) -> Option<(&'a TrackedPod, EvictionAttempt)> {
        match tracked.next(&self.context) {
            NextStep::Due(attempt) => Some((tracked, attempt)),
            NextStep::Idle | NextStep::At(_) => None,
        }
    }

    /// Returns the order of a request. Pods without a refusal come first, by priority and size, or by grace period if time is
    /// short. Refused pods follow by their last safe time, because a budget releases them one by one. Each refusal moves a pod
    /// back a little, so that no pod starves. With small pods first, kube-scheduler would spread their successors over the
    /// capacity that large pods need in one piece.
    fn rank(&self, tracked: &TrackedPod, method: RemovalMethod) -> impl Ord + use<> {
        let StepContext { settings, times, .. } = &self.context;
        let last = tracked.last_safe_time(settings).unwrap_or_default();
        let refused = (tracked.attempts > 0).then(|| last + STEP_BACK.saturating_mul(tracked.attempts));
        let urgent = tracked.is_urgent(settings, times.now);
        let (priority, size) = if urgent { (i32::MIN, 0) } else { (tracked.pod.priority, tracked.pod.size) };
        (method, refused, priority, Reverse(size), Reverse(tracked.pod.grace_seconds), tracked.pod.uid.clone())
    }

    /// Returns how many more requests of this kind may be outstanding.
    fn free(&self, method: RemovalMethod) -> usize {
        let outstanding = self.pods.values().filter(|tracked| tracked.outstanding() == Some(method)).count();
        self.context.settings.abreast.max(1).saturating_sub(outstanding)
    }
}

fn take(free: &mut usize) -> bool {
    let some = *free > 0;
    *free = free.saturating_sub(1);
    some
}
