//! Counts for conditions and logs during a drain, and a report at its end.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::moment::Millis;
use crate::pod::{PodOutcome, Skip};
use crate::settings::Settings;
use crate::tracked_pod::{PodState, TrackedPod};

/// Maximum number of names in a sentence.
const NAMED: usize = 3;

/// Progress of a drain, in pods. `waiting`, `blocked` and `leaving` are still on the node and must leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Pods without a request, pods whose first response is outstanding, and pods that wait for do-not-disrupt or an earlier
    /// group.
    pub waiting: usize,
    /// Pods whose last request was refused.
    pub blocked: usize,
    /// Terminating pods.
    pub leaving: usize,
    /// Accepted evictions of the whole drain.
    pub evicted: usize,
    /// Accepted deletions of the whole drain.
    pub forced: usize,
    /// Skipped pods on the node.
    pub skipped: usize,
}

impl Progress {
    /// Returns the number of pods that must still leave.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.waiting + self.blocked + self.leaving
    }

    pub(crate) fn from_pods<'a>(pods: impl Iterator<Item = &'a TrackedPod>, settings: &Settings, now: Millis) -> Self {
        let mut sum = Self::default();
        pods.for_each(|tracked| sum.add(tracked, settings, now));
        sum
    }

    fn add(&mut self, tracked: &TrackedPod, settings: &Settings, now: Millis) {
        match tracked.outcome(settings, now) {
            Some(PodOutcome::Evicted) => self.evicted += 1,
            Some(PodOutcome::Forced) => self.forced += 1,
            _ => {}
        }
        if !tracked.present {
            return;
        }
        if tracked.skip(settings, now).is_some() {
            self.skipped += 1;
        } else if tracked.is_terminating() {
            self.leaving += 1;
        } else if matches!(tracked.state, PodState::Refused { .. }) || tracked.blocking_budget().is_some() {
            self.blocked += 1;
        } else {
            self.waiting += 1;
        }
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} evicted, {} forced, {} terminating, {} waiting, {} blocked, {} ignored",
            self.evicted, self.forced, self.leaving, self.waiting, self.blocked, self.skipped
        )
    }
}

/// Result of a whole drain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainReport {
    /// Pods whose eviction was accepted.
    pub evicted: usize,
    /// Pods that were deleted regardless of their budget.
    pub forced: usize,
    /// Pods that disappeared without a request of the drain.
    pub gone: usize,
    /// Pods that should have left and still run, as `namespace/name`.
    pub running: Vec<String>,
    /// Pods that were skipped because of a policy or their kind.
    pub left: usize,
    /// Number of pods that each PodDisruptionBudget (`namespace/name`) refused at least once.
    pub blocked: BTreeMap<String, usize>,
    /// Number of volumes that are still attached.
    pub volumes: usize,
    /// Duration in whole seconds.
    pub seconds: u64,
}

impl DrainReport {
    /// Reports whether all pods that should leave have left.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.running.is_empty()
    }

    pub(crate) fn from_pods<'a>(pods: impl Iterator<Item = &'a TrackedPod>, settings: &Settings, now: Millis) -> Self {
        let mut report = Self::default();
        pods.for_each(|tracked| report.add(tracked, settings, now));
        report
    }

    fn add(&mut self, tracked: &TrackedPod, settings: &Settings, now: Millis) {
        match tracked.outcome(settings, now) {
            Some(PodOutcome::Evicted) => self.evicted += 1,
            Some(PodOutcome::Forced) => self.forced += 1,
            Some(PodOutcome::Gone) => self.gone += 1,
            Some(PodOutcome::Left(Skip::Deadline)) | None => {}
            Some(PodOutcome::Left(_)) => self.left += 1,
        }
        if tracked.must_leave(settings, now) {
            self.running.push(format!("{}/{}", tracked.pod.namespace, tracked.pod.name));
        }
        if let Some(budget) = &tracked.budget {
            *self.blocked.entry(budget.clone()).or_default() += 1;
        }
    }
}

impl fmt::Display for DrainReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { evicted, forced, gone, left, seconds, .. } = self;
        write!(f, "{evicted} evicted, {forced} forced, {gone} deleted by others, {left} ignored in {seconds} s")?;
        if !self.running.is_empty() {
            let named: Vec<&str> = self.running.iter().take(NAMED).map(String::as_str).collect();
            write!(f, "; still running: {} ({})", self.running.len(), named.join(", "))?;
        }
        if !self.blocked.is_empty() {
            let budgets = self.blocked.iter().take(NAMED).map(|(budget, pods)| format!("{budget} ({pods})"));
            write!(f, "; blocked by PodDisruptionBudget {}", budgets.collect::<Vec<_>>().join(", "))?;
        }
        if self.volumes > 0 {
            write!(f, "; volumes still attached: {}", self.volumes)?;
        }
        Ok(())
    }
}
