//! Rules of a drain: its deadline, the reserve before it, retry delays, and the pods that it skips.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::moment::Millis;
use crate::pod::{PodOnNode, STUCK_AFTER, Skip};

/// Treatment of DaemonSet pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DaemonSets {
    /// DaemonSet pods are skipped, critical or not. Correct for a node without a taint, where their controller would
    /// immediately replace each pod on the same node. An agent cannot set taints, so this is the default.
    #[default]
    Skip,
    /// DaemonSet pods are evicted in separate groups, after ordinary and after critical pods. Correct for a node with
    /// Karpenter's disrupted taint.
    Drain,
}

/// Treatment of protected pods: those with do-not-disrupt, and those without an owner that would recreate them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BudgetPolicy {
    /// Protected pods are evicted like other pods.
    Evict,
    /// Protected pods remain until their last safe time and are then deleted.
    Hold,
    /// Protected pods are never evicted; they end with the instance.
    Leave,
}

/// Rules of one drain. Fields that a journal of an earlier version lacks have their default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Time at which the instance may terminate. Without a deadline no pod is ever forced.
    pub deadline: Option<Millis>,
    /// Time reserved at the end for unmounts and last reports: pods should be gone at `deadline - reserve`.
    pub reserve: Duration,
    /// Limit for pods whose own grace period exceeds the time left when they are first seen. Such a pod is evicted immediately
    /// with the time left as its grace period. A pod that its budget still blocks is deleted this long before `deadline -
    /// reserve`.
    pub grace_cap: Duration,
    /// Delay between the removal of the node from load balancers and the first eviction. At most a quarter of the time that a
    /// pod has until its last safe time.
    pub lead: Duration,
    /// Maximum time for which evictions wait until the node is cordoned and out of load balancers.
    pub patience: Duration,
    /// Time before its last safe time at which a pod stops waiting for earlier groups; at most half of the time that the pod
    /// has.
    pub jump: Duration,
    /// Treatment of DaemonSet pods.
    pub daemon_sets: DaemonSets,
    /// Treatment of pods whose annotation `karpenter.sh/do-not-disrupt` is in effect.
    pub do_not_disrupt: BudgetPolicy,
    /// Treatment of pods without a controlling owner, which are not recreated.
    pub bare: BudgetPolicy,
    /// `true` if a pod is evicted only after its copy is ready, or when it need not wait any longer.
    pub await_copies: bool,
    /// Maximum number of concurrent evictions, and of concurrent deletions.
    pub abreast: usize,
    /// First delay after a refusal; it doubles with each further one.
    pub retry_min: Duration,
    /// Maximum delay after a refusal.
    pub retry_max: Duration,
    /// Maximum delay before the next request for one of the pods that a PodDisruptionBudget blocks, on behalf of all of them.
    pub probe_max: Duration,
    /// Maximum time, not past the deadline, for which a node without pods waits until its volumes detach.
    pub detach: Duration,
    /// Seed of the jitter between retries.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deadline: None,
            reserve: Duration::ZERO,
            grace_cap: Duration::MAX,
            lead: Duration::ZERO,
            patience: Duration::ZERO,
            jump: Duration::ZERO,
            daemon_sets: DaemonSets::Skip,
            do_not_disrupt: BudgetPolicy::Hold,
            bare: BudgetPolicy::Evict,
            await_copies: false,
            abreast: 16,
            retry_min: Duration::from_millis(100),
            retry_max: Duration::from_secs(10),
            probe_max: Duration::from_secs(10),
            detach: Duration::ZERO,
            seed: 0,
        }
    }
}

impl Settings {
    /// Returns the rules for an instance whose own agent drains it, still without a deadline. The reserve for unmounts is 10 s.
    /// Budgets are respected until a pod's last safe time.
    #[must_use]
    pub fn for_machine(seed: u64) -> Self {
        Self {
            reserve: Duration::from_secs(10),
            grace_cap: Duration::from_secs(30),
            patience: Duration::from_secs(5),
            jump: Duration::from_secs(45),
            retry_max: Duration::from_secs(5),
            probe_max: Duration::from_millis(500),
            detach: Duration::from_secs(60),
            await_copies: true,
            seed,
            ..Self::default()
        }
    }

    /// Returns the rules for an announced termination of the instance, such as the two minutes of a spot interruption.
    #[must_use]
    pub fn for_notice(deadline: Millis, seed: u64) -> Self {
        Self { deadline: Some(deadline), ..Self::for_machine(seed) }
    }

    /// Returns the rules for Karpenter's termination, with its taint on the node. `deadline` is that of the NodeClaim's
    /// terminationGracePeriod, if it has one. A pod is deleted early enough for its full grace period.
    #[must_use]
    pub fn for_termination(deadline: Option<Millis>, seed: u64) -> Self {
        Self { deadline, daemon_sets: DaemonSets::Drain, seed, ..Self::default() }
    }

    /// Returns the same rules with Karpenter's handling of deadlines. There is no reserve, and no eviction before the pod's
    /// group. Only Karpenter's policy for skipped pods applies. Copies of pods are ready before a termination is requested.
    #[must_use]
    pub fn as_terminating(self) -> Self {
        let Self { reserve, grace_cap, jump, do_not_disrupt, bare, await_copies, .. } =
            Self::for_termination(None, self.seed);
        Self { reserve, grace_cap, jump, do_not_disrupt, bare, await_copies, ..self }
    }

    /// Returns the time at which pods should be gone: the deadline minus the reserve.
    #[must_use]
    pub fn end(&self) -> Option<Millis> {
        self.deadline.map(|deadline| deadline - self.reserve)
    }

    /// Returns the last safe time of a pod that was first seen at `seen`. At this time the pod is deleted regardless of its
    /// budget. `None` without a deadline.
    #[must_use]
    pub fn last_safe_time(&self, pod: &PodOnNode, seen: Millis) -> Option<Millis> {
        let end = self.end()?;
        let whole = end - pod.grace();
        Some(if whole >= seen { whole } else { end - pod.grace().min(self.grace_cap) })
    }

    /// Returns the whole seconds left for a pod's termination, at least one. With zero, the API server would remove the pod
    /// before kubelet has stopped it.
    pub(crate) fn seconds_left(&self, now: Millis) -> Option<u64> {
        self.end().map(|end| end.since(now).as_secs().max(1))
    }

    /// Returns the time from which no policy holds the pod; `None` if a policy holds it until its last safe time.
    pub(crate) fn released_at(&self, pod: &PodOnNode) -> Option<Millis> {
        match (pod.is_bare() && self.bare == BudgetPolicy::Hold, self.do_not_disrupt) {
            (true, _) => None,
            (false, BudgetPolicy::Hold) => pod.do_not_disrupt.end(),
            (false, BudgetPolicy::Evict | BudgetPolicy::Leave) => Some(Millis(0)),
        }
    }

    /// Returns the time from which a pod that was first seen at `seen` does not wait for its copy.
    pub(crate) fn copy_awaited_until(&self, pod: &PodOnNode, seen: Millis) -> Millis {
        if self.await_copies { pod.copy.end(seen) } else { Millis(0) }
    }

    /// Returns why the drain does not wait for the pod, or `None` if the drain waits.
    pub(crate) fn skip(&self, pod: &PodOnNode, now: Millis) -> Option<Skip> {
        if pod.terminal {
            Some(Skip::Ended)
        } else if pod.mirror {
            Some(Skip::Mirror)
        } else if pod.tolerates_disrupted {
            Some(Skip::Tolerates)
        } else if self.daemon_sets == DaemonSets::Skip && pod.is_daemon() {
            Some(Skip::DaemonSet)
        } else if pod.deletion.is_some_and(|end| now >= end + STUCK_AFTER) {
            Some(Skip::Stuck)
        } else if self.is_left(pod, now) {
            Some(Skip::Policy)
        } else {
            None
        }
    }

    /// Reports whether a policy leaves the pod on the node at `now`.
    fn is_left(&self, pod: &PodOnNode, now: Millis) -> bool {
        (self.do_not_disrupt == BudgetPolicy::Leave && pod.do_not_disrupt.holds(now))
            || (pod.is_bare() && self.bare == BudgetPolicy::Leave)
    }
}
