//! Pod data that a drain needs, and the derived group or reason to skip the pod.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::moment::Millis;

/// Time in which a controller starts the copy of a pod that asks for one.
const COPY_STARTS_WITHIN: Duration = Duration::from_secs(10);

/// Time after the planned end of a deletion at which the pod counts as stuck: kubelet will not report its end any more.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(60);

/// Bytes of memory per core of general-purpose instances.
const MEMORY_PER_CORE: i64 = 4 << 30;

/// Priority classes whose pods leave last; the API server reserves them for pods that the cluster needs.
const CRITICAL_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];
/// Priority of the lower class.
const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// A pod bound to the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodOnNode {
    /// `metadata.uid`: the pod's identity; every request has it as a precondition.
    pub uid: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// Kind of the controlling owner (`DaemonSet`, `ReplicaSet`, ...), if it has one.
    pub owner_kind: Option<String>,
    /// `true` if its priority class is `system-cluster-critical` or `system-node-critical`, or if its priority is as high.
    pub critical: bool,
    /// `spec.priority`; pods of lower priority are evicted first.
    #[serde(default)]
    pub priority: i32,
    /// Size of its requests ([`PodOnNode::size`]); pods that are harder to place are evicted first.
    #[serde(default)]
    pub size: u64,
    /// Number of PersistentVolumeClaims among its volumes; they remain attached while the pod remains.
    #[serde(default)]
    pub claims: u32,
    /// `spec.terminationGracePeriodSeconds`, in seconds.
    pub grace_seconds: u64,
    /// `true` if `status.phase` is `Succeeded` or `Failed`.
    pub terminal: bool,
    /// `metadata.deletionTimestamp`: planned end of a requested deletion (request time plus grace).
    pub deletion: Option<Millis>,
    /// `true` if it tolerates the taint `karpenter.sh/disrupted`.
    pub tolerates_disrupted: bool,
    /// `true` if it is the mirror pod of one of kubelet's static pods.
    pub mirror: bool,
    /// Protection by its annotation `karpenter.sh/do-not-disrupt`.
    #[serde(rename = "protection", default)]
    pub do_not_disrupt: Protection,
    /// Copy that must be ready before its eviction.
    #[serde(default)]
    pub copy: AwaitedCopy,
}

/// Copy of a pod, for which an eviction after a notice waits. The controller starts copies and knows which are ready. Its request
/// for the termination of the node ends the wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AwaitedCopy {
    /// The pod needs no copy.
    #[default]
    None,
    /// The pod asks for a copy, and no controller has started one.
    Requested,
    /// A controller has started the copy. The eviction does not wait beyond this time.
    Starting(Millis),
}

/// Protection of a pod from voluntary eviction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Protection {
    /// The pod has no protection.
    #[default]
    None,
    /// The pod is protected until this time.
    Until(Millis),
    /// The pod is protected without an end.
    Always,
}

impl Protection {
    /// Reports whether the pod is protected at `now`.
    #[must_use]
    pub fn holds(self, now: Millis) -> bool {
        match self {
            Self::None => false,
            Self::Until(end) => now < end,
            Self::Always => true,
        }
    }

    /// Returns the time from which the pod is not protected; `None` if the protection has no end.
    #[must_use]
    pub fn end(self) -> Option<Millis> {
        match self {
            Self::None => Some(Millis(0)),
            Self::Until(end) => Some(end),
            Self::Always => None,
        }
    }
}

impl AwaitedCopy {
    /// Returns the time from which a pod that was first seen at `seen` does not wait for its copy.
    pub(crate) fn end(self, seen: Millis) -> Millis {
        match self {
            Self::None => Millis(0),
            Self::Requested => seen + COPY_STARTS_WITHIN,
            Self::Starting(end) => end,
        }
    }
}

impl PodOnNode {
    /// Returns one number for requests in thousandths of a core and in bytes: the larger of both, where one core corresponds to
    /// 4 GiB.
    #[must_use]
    pub fn size(cpu: i64, memory: i64) -> u64 {
        u64::try_from(cpu.max(memory / (MEMORY_PER_CORE / 1000))).unwrap_or_default()
    }

    /// Reports whether `spec.priorityClassName` makes a pod critical.
    #[must_use]
    pub fn is_critical_class(name: &str) -> bool {
        CRITICAL_CLASSES.contains(&name)
    }

    /// Reports whether class or priority make a pod critical.
    #[must_use]
    pub fn is_critical(class: &str, priority: i32) -> bool {
        Self::is_critical_class(class) || priority >= CRITICAL_PRIORITY
    }

    /// Returns the pod's own grace period.
    #[must_use]
    pub fn grace(&self) -> Duration {
        Duration::from_secs(self.grace_seconds)
    }

    /// Reports whether a DaemonSet owns the pod.
    #[must_use]
    pub fn is_daemon(&self) -> bool {
        self.owner_kind.as_deref() == Some("DaemonSet")
    }

    /// Reports whether the pod has no owner that would recreate it.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.owner_kind.is_none()
    }

    /// Returns the group with which the pod is evicted.
    #[must_use]
    pub fn group(&self) -> Group {
        match (self.critical, self.is_daemon()) {
            (false, false) => Group::Ordinary,
            (false, true) => Group::OrdinaryDaemon,
            (true, false) => Group::Critical,
            (true, true) => Group::CriticalDaemon,
        }
    }
}

/// Groups of pods, in the order of their eviction.
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

/// Reason why a pod remains on the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Skip {
    /// The pod has completed: no process runs any more.
    Ended,
    /// A static pod: only kubelet can stop it.
    Mirror,
    /// The pod tolerates the disrupted taint: its owner requests that it remains until the end.
    Tolerates,
    /// A DaemonSet would replace the pod on the same node.
    DaemonSet,
    /// The deletion of the pod should have ended over a minute ago, and its end will not be reported.
    Stuck,
    /// The deadline passed before any request for the pod was accepted.
    Deadline,
    /// The settings exclude pods with do-not-disrupt or without an owner.
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

/// Final result for one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PodOutcome {
    /// Evicted: the eviction was accepted, so its budget was respected.
    Evicted,
    /// Deleted at its last safe time, or its deletion was shortened, because of the deadline.
    Forced,
    /// Gone before any request: the pod completed, or another client deleted it.
    Gone,
    /// Left on the node.
    Left(Skip),
}

impl fmt::Display for PodOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicted => f.write_str("evicted"),
            Self::Forced => f.write_str("forced"),
            Self::Gone => f.write_str("deleted by others"),
            Self::Left(why) => write!(f, "left ({why})"),
        }
    }
}
