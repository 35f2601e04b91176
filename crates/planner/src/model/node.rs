//! Nodes, and claims without a node, as the planner's input.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{
    CapacityHolder, CapacitySplit, Effect, MicroDollars, Millis, PaidShare, PodShape, Requirement, Resources, Size,
    Sizing, Taint,
};

/// Key of the taint of a cordon.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// Stage of a node's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// A claim whose node has not registered.
    InFlight,
    /// Registered, not yet initialized: `taints` omits startup and ephemeral taints.
    Registered,
    /// Ready for pods; includes nodes that Kerf does not manage.
    #[default]
    Initialized,
}

/// Reason why a node takes no more pods and its pods count as pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Leaving {
    /// The Node or NodeClaim is being deleted or waits for its replacement. A command is in progress, or its agent requested a
    /// replacement.
    Deleting,
    /// EC2 interrupts the instance at `deadline`; the agent drains it.
    Interrupted {
        /// Time of the interruption, if the notice contains it.
        deadline: Option<Millis>,
    },
}

/// Node, or in-flight claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Name of the Node, or of the NodeClaim while it has no Node.
    pub name: String,
    /// Name of the NodeClaim; `None` for nodes that Kerf does not manage.
    pub claim: Option<String>,
    /// Name of the NodePool.
    pub pool: Option<String>,
    /// Stage of the node.
    pub stage: Stage,
    /// Reason, if the node is leaving.
    pub leaving: Option<Leaving>,
    /// True if the node is cordoned: only pods that tolerate the taint of a cordon may run there; see [`Node::repelling`].
    pub unschedulable: bool,
    /// Labels of the Node; while in flight those of the claim, with single-valued requirements.
    pub labels: BTreeMap<String, String>,
    /// Requirements that a claim without an instance still leaves open; a pod can rely on the claim only when every possibility
    /// satisfies it.
    pub requirements: Vec<Requirement>,
    /// Instance type, where known; for a claim without an instance the cheapest that it lists.
    pub instance_type: Option<String>,
    /// Taints that apply to pods.
    pub taints: Vec<Taint>,
    /// Allocatable resources.
    pub allocatable: Resources,
    /// Requests of its bound pods (`pods` counts them), DaemonSet pods included.
    pub used: Resources,
    /// Part of `used` for DaemonSet pods, by the DaemonSet's `namespace/name`.
    pub daemon_used: BTreeMap<String, Resources>,
    /// Bound pods, DaemonSet and static pods included.
    pub pods: Vec<BoundPod>,
    /// Maximum number of volumes that it can attach, by CSI driver; a driver without an entry is unlimited.
    pub attach_limits: BTreeMap<String, i64>,
    /// Time since which it is initialized and `Ready`; `None` while it is not.
    pub healthy_since: Option<Millis>,
    /// Time of the last change on the node; `None` while not initialized.
    pub quiet_since: Option<Millis>,
    /// True if the Node has an effective `karpenter.sh/do-not-disrupt` annotation.
    pub do_not_disrupt: bool,
    /// True while its instance reboots. The node returns, so neither emptiness nor cost counts until then.
    pub rebooting: bool,
    /// End of the protection by a nomination of a recent plan.
    pub nominated_until: Option<Millis>,
    /// Price; `None` when its type is unknown.
    pub price: Option<MicroDollars>,
    /// Parts of the price for which commitments pay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paid: Vec<PaidShare>,
    /// Creation time of its NodeClaim.
    pub created: Millis,
    /// Time of its expiration, if any.
    pub expires: Option<Millis>,
    /// `terminationGracePeriod` in milliseconds: with it, drift and expiration ignore pods that block disruption, because the
    /// drain ends.
    pub termination_grace: Option<i64>,
    /// Drift from its NodePool and EC2NodeClass.
    pub drifted: Option<Drifted>,
    /// Unhealthy condition while node repair is enabled, with the time from which the node may be replaced.
    pub unhealthy: Option<Unhealthy>,
    /// Measured usage, from a valid report for this node.
    pub usage: Option<Usage>,
}

/// Drift of a node from its NodePool and EC2NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Drifted {
    /// Time of the drift; nodes that drifted first are replaced first.
    pub since: Millis,
    /// Reason of the condition, such as `NodePoolDrifted`.
    pub reason: String,
}

/// Unhealthy state of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Unhealthy {
    /// Time from which the node is replaced if it does not recover.
    pub due: Millis,
    /// Type of the condition, such as `Ready`.
    pub condition: String,
}

/// Measured usage of a node, from its agent's report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// 95th percentile of the CPU usage of its pods, in millicores.
    pub cpu: i64,
    /// 95th percentile of their working set, in bytes.
    pub memory: i64,
    /// Present pressure: stalls, or OOM kills of pods.
    pub pressed: Option<Pressure>,
    /// Sum of the 95th percentiles of its pods: greater than `cpu` and `memory`, because pods do not peak together. Zero where
    /// unknown.
    pub of_pods: Size,
    /// Usage of pods that are too recent to be part of `cpu` and `memory`; for pods without a measurement, their requests.
    pub newcomers: Size,
}

/// Pressure on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Pressure {
    /// Processes wait for a CPU much of the time.
    Cpu,
    /// Processes wait for memory.
    Memory,
    /// All processes wait for a disk.
    Disk,
    /// Processes were OOM killed.
    Killed,
}

impl Node {
    /// Returns what the node adds to the bill: its price without the parts for which commitments pay.
    #[must_use]
    pub fn unpaid_price(&self) -> Option<MicroDollars> {
        let paid: i64 = self.paid.iter().map(|share| share.price.0).sum();
        Some(MicroDollars(self.price?.0 - paid))
    }

    /// Reports whether the node expired before it was ever initialized; no decision relies on such a node.
    #[must_use]
    pub fn never_registered(&self, now: Millis) -> bool {
        self.claim.is_some() && self.stage != Stage::Initialized && self.expires.is_some_and(|at| at <= now)
    }

    /// Returns the taints that apply to pods. A cordon counts as a taint, with or without the taint on the Node.
    #[must_use]
    pub fn repelling(&self) -> Cow<'_, [Taint]> {
        if !self.unschedulable || self.taints.iter().any(|taint| taint.key == CORDON) {
            return Cow::Borrowed(&self.taints);
        }
        let cordon = Taint { key: CORDON.to_owned(), value: String::new(), effect: Effect::NoSchedule };
        self.taints.iter().cloned().chain([cordon]).collect()
    }
}

/// Pod that runs on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BoundPod {
    /// UID of the pod.
    pub uid: String,
    /// `namespace/name`.
    pub name: String,
    /// True if the pod would need another place when the node is removed: the pod is alive, or its StatefulSet recreates it
    /// under its name.
    pub reschedulable: bool,
    /// True if an active `karpenter.sh/do-not-disrupt` annotation blocks the node's disruption, also of a pod that terminates
    /// with its node.
    pub do_not_disrupt: bool,
    /// End of this protection, where the annotation names a time.
    pub protected_until: Option<Millis>,
    /// PodDisruptionBudgets that block its eviction now: one that allows none, or more than one, which the eviction API
    /// rejects.
    pub held_by: Vec<String>,
    /// Disruption cost of its eviction: [`BoundPod::COST`] by default, changed by its deletion cost and priority.
    pub cost: i64,
    /// Time since when a pod works towards its end, as pods of Jobs do: an eviction loses this work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub works_since: Option<Millis>,
    /// Workload with a minimum interval between disruptions: `Kind namespace/name`. [`super::Snapshot::resting`] has the end of
    /// the present interval.
    pub workload: Option<Arc<str>>,
    /// Properties that rules of other pods use: namespace, labels, terms, ports, volumes. Pods of one owner share the shape.
    /// The shape has the requests of a recreated pod; the present requests are part of the node's `used`.
    pub shape: Arc<PodShape>,
    /// `namespace/name` of its volume claims, one for each of the shape's `volumes`.
    pub claims: Vec<String>,
    /// Split of its workload over on-demand and spot, if requested.
    pub mix: Option<Arc<CapacitySplit>>,
    /// True if the pod is terminating: it keeps its resources, ports and volumes, but counts for no topology.
    pub ending: bool,
    /// 95th percentile of its usage; `None` where it was not measured.
    pub used: Option<Size>,
    /// Requests and usage by container, where its NodePool lowers requests or they were lowered.
    pub sizing: Option<Box<Sizing>>,
    /// True if a copy of it must run before it is evicted.
    pub surges: bool,
    /// Object that keeps capacity with this pod, for virtual pods during disruption: they occupy capacity of the node and never
    /// run.
    pub holder: Option<CapacityHolder>,
}

impl BoundPod {
    /// Default disruption cost of a pod: Karpenter's 1.0, in units of 2^-27.
    pub const COST: i64 = 1 << 27;

    /// Returns the disruption cost of a pod with this deletion cost and priority.
    #[must_use]
    pub fn cost_of(deletion_cost: i32, priority: i32) -> i64 {
        let cost = Self::COST + i64::from(deletion_cost) + 4 * i64::from(priority);
        cost.clamp(-10 * Self::COST, 10 * Self::COST)
    }
}

impl Default for BoundPod {
    fn default() -> Self {
        Self {
            uid: String::new(),
            name: String::new(),
            reschedulable: false,
            do_not_disrupt: false,
            protected_until: None,
            held_by: Vec::new(),
            cost: Self::COST,
            works_since: None,
            workload: None,
            shape: Arc::default(),
            claims: Vec::new(),
            mix: None,
            ending: false,
            used: None,
            sizing: None,
            surges: false,
            holder: None,
        }
    }
}
