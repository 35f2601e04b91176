//! What a drain is allowed to do: its deadline, what it keeps back of it, and whom it leaves alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::moment::Millis;
use crate::pod::PodOnNode;

/// Whether pods of DaemonSets are drained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DaemonSets {
    /// They stay, critical or not. Right without a taint on the node: their controller would put a new pod in each one's place at
    /// once. An agent cannot set taints, so this is the default.
    #[default]
    Skip,
    /// They go in their own groups, after ordinary and after critical pods. Right behind Karpenter's disrupted taint.
    Drain,
}

/// The rules of one drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// When the machine may be gone. Without one nothing is ever forced.
    pub deadline: Option<Millis>,
    /// What is kept back at the end for unmounting and last reports: pods should be gone at `deadline - reserve`.
    pub reserve: Duration,
    /// The longest stretch before `deadline - reserve` in which a blocked pod is deleted instead of evicted. A pod with a longer grace
    /// period is evicted with less instead: giving it all it asks for would mean ignoring its budget from the first second.
    pub grace_cap: Duration,
    /// What happens to pods of DaemonSets.
    pub daemon_sets: DaemonSets,
    /// The first wait after a refusal; it doubles with each further one.
    pub retry_min: Duration,
    /// The longest wait after a refusal.
    pub retry_max: Duration,
    /// Seed of the jitter between retries.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deadline: None,
            reserve: Duration::ZERO,
            grace_cap: Duration::MAX,
            daemon_sets: DaemonSets::Skip,
            retry_min: Duration::from_millis(100),
            retry_max: Duration::from_secs(10),
            seed: 0,
        }
    }
}

impl Settings {
    /// For an announced end of the machine, such as the two minutes of a spot notice: 10 s are kept back for unmounting, and
    /// budgets are honoured until 30 s before that.
    #[must_use]
    pub fn for_notice(deadline: Millis, seed: u64) -> Self {
        Self {
            deadline: Some(deadline),
            reserve: Duration::from_secs(10),
            grace_cap: Duration::from_secs(30),
            seed,
            ..Self::default()
        }
    }

    /// For Karpenter's termination, behind its taint: `deadline` is that of the NodeClaim's terminationGracePeriod, if it has one,
    /// and a pod is deleted early enough to get all of its own grace period.
    #[must_use]
    pub fn for_termination(deadline: Option<Millis>, seed: u64) -> Self {
        Self { deadline, daemon_sets: DaemonSets::Drain, seed, ..Self::default() }
    }

    /// When pods should be gone: the deadline less the reserve.
    pub(crate) fn end(&self) -> Option<Millis> {
        self.deadline.map(|deadline| deadline - self.reserve)
    }

    /// When this pod is deleted whatever its budget says; never without a deadline.
    #[must_use]
    pub fn switch(&self, pod: &PodOnNode) -> Option<Millis> {
        self.end().map(|end| end - pod.grace().min(self.grace_cap))
    }

    /// Whole seconds left to stop in, at least one: zero would make the API forget the pod before kubelet stopped it.
    pub(crate) fn seconds_left(&self, now: Millis) -> Option<u64> {
        self.end().map(|end| end.since(now).as_secs().max(1))
    }
}
