//! What a drain is allowed to do: its deadline, what it keeps back of it, how patient it is, and whom it leaves alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::moment::Millis;
use crate::pod::{PodOnNode, Skip};

/// Whether pods of DaemonSets are drained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DaemonSets {
    /// They stay, critical or not. Right without a taint on the node: their controller would put a new pod in each one's place at
    /// once. An agent cannot set taints, so this is the default.
    #[default]
    Skip,
    /// They go in their own groups, after ordinary and after critical pods. Right behind Karpenter's disrupted taint.
    Drain,
}

/// What happens to pods that ask for care: those with do-not-disrupt, and those that nobody makes anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BudgetPolicy {
    /// They are evicted like any other.
    Evict,
    /// They stay until the last safe moment and are deleted then.
    Hold,
    /// They are never asked; the machine takes them with it.
    Leave,
}

/// The rules of one drain. What a journal of an earlier version does not say is as in the default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// When the machine may be gone. Without one nothing is ever forced.
    pub deadline: Option<Millis>,
    /// What is kept back at the end for unmounting and last reports: pods should be gone at `deadline - reserve`.
    pub reserve: Duration,
    /// A pod whose own grace period does not fit into the time that there is when it is first seen cannot end as it requests. It is
    /// evicted with what is left at once, and deleted this long before `deadline - reserve` if its budget still holds it.
    pub grace_cap: Duration,
    /// From the moment at which the node is out of load balancers to the first eviction. Never more than a quarter of what a pod can
    /// spare until its last safe moment.
    pub lead: Duration,
    /// For so long evictions wait for the node to be cordoned and out of load balancers.
    pub patience: Duration,
    /// This long before its last safe moment a pod does not wait for earlier groups any more, at most half of the time that it has.
    pub jump: Duration,
    /// What happens to pods of DaemonSets.
    pub daemon_sets: DaemonSets,
    /// Pods whose annotation `karpenter.sh/do-not-disrupt` holds.
    pub do_not_disrupt: BudgetPolicy,
    /// Pods without a controlling owner: nobody makes them anew.
    pub bare: BudgetPolicy,
    /// Evictions out at the same time, and as many deletions.
    pub abreast: usize,
    /// The first wait after a refusal; it doubles with each further one.
    pub retry_min: Duration,
    /// The longest wait after a refusal.
    pub retry_max: Duration,
    /// The longest wait before one of the pods that a PodDisruptionBudget holds is asked again on behalf of all of them.
    pub probe_max: Duration,
    /// For so long, and not past the deadline, a node without pods waits for its volumes to detach.
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
    /// For a machine that empties itself, without a deadline yet: 10 s are kept back for unmounting, budgets are honoured until a
    /// pod's last safe moment.
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
            seed,
            ..Self::default()
        }
    }

    /// For an announced end of the machine, such as the two minutes of a spot notice.
    #[must_use]
    pub fn for_notice(deadline: Millis, seed: u64) -> Self {
        Self { deadline: Some(deadline), ..Self::for_machine(seed) }
    }

    /// For Karpenter's termination, behind its taint: `deadline` is that of the NodeClaim's terminationGracePeriod, if it has one,
    /// and a pod is deleted early enough to get all of its own grace period.
    #[must_use]
    pub fn for_termination(deadline: Option<Millis>, seed: u64) -> Self {
        Self { deadline, daemon_sets: DaemonSets::Drain, seed, ..Self::default() }
    }

    /// The same pace by Karpenter's arithmetic: nothing is kept back, nobody goes before its turn, and no policy but Karpenter's says
    /// whom to leave alone.
    #[must_use]
    pub fn as_terminating(self) -> Self {
        let Self { reserve, grace_cap, jump, do_not_disrupt, bare, .. } = Self::for_termination(None, self.seed);
        Self { reserve, grace_cap, jump, do_not_disrupt, bare, ..self }
    }

    /// When pods should be gone: the deadline less the reserve.
    #[must_use]
    pub fn end(&self) -> Option<Millis> {
        self.deadline.map(|deadline| deadline - self.reserve)
    }

    /// The last safe moment of a pod that was first seen at `seen`: then it is deleted whatever its budget says. Never without a
    /// deadline.
    #[must_use]
    pub fn switch(&self, pod: &PodOnNode, seen: Millis) -> Option<Millis> {
        let end = self.end()?;
        let whole = end - pod.grace();
        Some(if whole >= seen { whole } else { end - pod.grace().min(self.grace_cap) })
    }

    /// Whole seconds left to stop in, at least one: zero would make the API forget the pod before kubelet stopped it.
    pub(crate) fn seconds_left(&self, now: Millis) -> Option<u64> {
        self.end().map(|end| end.since(now).as_secs().max(1))
    }

    /// Whether policy keeps the pod until its last safe moment.
    pub(crate) fn holds(&self, pod: &PodOnNode) -> bool {
        self.cares(pod, BudgetPolicy::Hold)
    }

    /// Why the drain does not wait for the pod, if it does not.
    pub(crate) fn skip(&self, pod: &PodOnNode, now: Millis) -> Option<Skip> {
        pod.skip(self.daemon_sets, now).or_else(|| self.cares(pod, BudgetPolicy::Leave).then_some(Skip::Policy))
    }

    fn cares(&self, pod: &PodOnNode, care: BudgetPolicy) -> bool {
        (pod.do_not_disrupt && self.do_not_disrupt == care) || (pod.is_bare() && self.bare == care)
    }
}
