//! The little that a drain needs to know of a pod, and what follows from it: its group, or why it is left alone.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::moment::Millis;
use crate::settings::DaemonSets;

/// A deletion that should have ended this long ago did not happen: kubelet will not report it any more.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(60);

/// What general-purpose machines have.
const MEMORY_PER_CORE: i64 = 4 << 30;

/// The priority classes whose pods leave last; the API server keeps them for pods that the cluster cannot do without.
const CRITICAL_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];
/// The priority of the lower one.
const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// A pod bound to the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodOnNode {
    /// `metadata.uid`: the pod's identity; every request carries it as a precondition.
    pub uid: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// Kind of the controlling owner (`DaemonSet`, `ReplicaSet`, ...), if it has one.
    pub owner_kind: Option<String>,
    /// Its priority class is `system-cluster-critical` or `system-node-critical`, or its priority is as high.
    pub critical: bool,
    /// `spec.priority`; those of lower priority are asked first.
    #[serde(default)]
    pub priority: i32,
    /// What it requests ([`PodOnNode::size`]); those that are harder to place are asked first.
    #[serde(default)]
    pub size: u64,
    /// PersistentVolumeClaims among its volumes: while it stays, so do they.
    #[serde(default)]
    pub claims: u32,
    /// `spec.terminationGracePeriodSeconds`, in seconds.
    pub grace_seconds: u64,
    /// `status.phase` is `Succeeded` or `Failed`.
    pub terminal: bool,
    /// `metadata.deletionTimestamp`: when a deletion that somebody asked for shall have ended (request time plus grace).
    pub deletion: Option<Millis>,
    /// It tolerates the taint `karpenter.sh/disrupted`.
    pub tolerates_disrupted: bool,
    /// It mirrors a static pod of kubelet's own.
    pub mirror: bool,
    /// Its annotation `karpenter.sh/do-not-disrupt` holds right now.
    pub do_not_disrupt: bool,
}

impl PodOnNode {
    /// One figure for requests in thousandths of a core and in bytes: the larger of both, where a core goes with 4 GiB.
    #[must_use]
    pub fn size(cpu: i64, memory: i64) -> u64 {
        u64::try_from(cpu.max(memory / (MEMORY_PER_CORE / 1000))).unwrap_or_default()
    }

    /// Whether `spec.priorityClassName` makes a pod critical.
    #[must_use]
    pub fn is_critical_class(name: &str) -> bool {
        CRITICAL_CLASSES.contains(&name)
    }

    /// Whether class or priority make a pod critical.
    #[must_use]
    pub fn is_critical(class: &str, priority: i32) -> bool {
        Self::is_critical_class(class) || priority >= CRITICAL_PRIORITY
    }

    /// Its own grace period.
    #[must_use]
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.grace_seconds)
    }

    /// Whether a DaemonSet owns it.
    #[must_use]
    pub fn is_daemon(&self) -> bool {
        self.owner_kind.as_deref() == Some("DaemonSet")
    }

    /// Whether nobody makes it anew.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.owner_kind.is_none()
    }

    /// The group that it leaves with.
    #[must_use]
    pub fn group(&self) -> Group {
        match (self.critical, self.is_daemon()) {
            (false, false) => Group::Ordinary,
            (false, true) => Group::OrdinaryDaemon,
            (true, false) => Group::Critical,
            (true, true) => Group::CriticalDaemon,
        }
    }

    /// Why the drain does not wait for it, if it does not.
    #[must_use]
    pub fn skip(&self, daemon_sets: DaemonSets, now: Millis) -> Option<Skip> {
        if self.terminal {
            Some(Skip::Ended)
        } else if self.mirror {
            Some(Skip::Mirror)
        } else if self.tolerates_disrupted {
            Some(Skip::Tolerates)
        } else if daemon_sets == DaemonSets::Skip && self.is_daemon() {
            Some(Skip::DaemonSet)
        } else if self.deletion.is_some_and(|end| now >= end + STUCK_AFTER) {
            Some(Skip::Stuck)
        } else {
            None
        }
    }
}

/// Groups leave one after another, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Group {
    /// Pods without critical priority that no DaemonSet owns.
    Ordinary,
    /// DaemonSet pods without critical priority.
    OrdinaryDaemon,
    /// Pods of critical priority that no DaemonSet owns.
    Critical,
    /// DaemonSet pods of critical priority.
    CriticalDaemon,
}

/// Why a pod is left on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Skip {
    /// It has ended: nothing runs any more.
    Ended,
    /// A static pod: only kubelet can stop it.
    Mirror,
    /// It tolerates the disrupted taint: it asked to stay to the end.
    Tolerates,
    /// A DaemonSet would replace it on this very node.
    DaemonSet,
    /// Its deletion should have ended over a minute ago: nobody will report it.
    Stuck,
    /// The deadline came before any request for it was accepted.
    Deadline,
    /// The settings say so of pods with do-not-disrupt or without an owner.
    Policy,
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ended => "completed",
            Self::Mirror => "static pod",
            Self::Tolerates => "tolerates disruption",
            Self::DaemonSet => "DaemonSet",
            Self::Stuck => "its deletion is blocked",
            Self::Deadline => "the deadline passed",
            Self::Policy => "policy",
        })
    }
}
