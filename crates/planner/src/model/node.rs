//! Nodes, and claims that have no node yet, as the planner sees them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CapacitySplit, Effect, MicroDollars, Millis, PodShape, Requirement, Resources, Size, Sizing, Taint};

/// The key of the taint that a cordon is.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// How far a node has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// A claim whose node has not registered.
    InFlight,
    /// Registered, not yet initialized: startup and ephemeral taints are already left out of `taints`.
    Registered,
    /// Ready for pods; nodes that Kerf does not manage are here too.
    #[default]
    Initialized,
}

/// Why a node takes no more pods and why its pods count as pending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Leaving {
    /// Its Node or NodeClaim is being deleted, or waits for its replacement: as a part of a move that is under way, or because
    /// its agent asked for one.
    Deleting,
    /// EC2 takes the instance back at `deadline`; the agent drains it.
    Interrupted {
        /// When the instance goes, if the notice said so.
        deadline: Option<Millis>,
    },
}

/// One node, or a claim on its way to be one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// The Node's name, or the NodeClaim's while it has no Node.
    pub name: String,
    /// The NodeClaim's name; `None` for nodes that Kerf does not manage.
    pub claim: Option<String>,
    /// The NodePool's name.
    pub pool: Option<String>,
    /// How far the node has come.
    pub stage: Stage,
    /// Set when the node is on its way out.
    pub leaving: Option<Leaving>,
    /// Whether it is cordoned: only pods that tolerate the taint of a cordon may go there; see [`Node::repelling`].
    pub unschedulable: bool,
    /// Labels of the Node; of the claim, with single-valued requirements, while in flight.
    pub labels: BTreeMap<String, String>,
    /// What a claim without an instance may still become; a pod counts on it only when every possibility suits the pod.
    pub requirements: Vec<Requirement>,
    /// The instance type, where known; of a claim without an instance the cheapest that it lists.
    pub instance_type: Option<String>,
    /// Taints that count for pods.
    pub taints: Vec<Taint>,
    /// What pods may request in all.
    pub allocatable: Resources,
    /// Requests of the pods bound to it (`pods` counts them), DaemonSet pods included.
    pub used: Resources,
    /// The DaemonSet pods' share of `used`.
    pub daemon_used: Resources,
    /// Pods that are bound to it, DaemonSet and static pods included.
    pub pods: Vec<BoundPod>,
    /// How many volumes it can attach, by CSI driver; a driver that is not named has no bound.
    pub attach_limits: BTreeMap<String, i64>,
    /// Since when nothing has happened on it; `None` while not initialized.
    pub quiet_since: Option<Millis>,
    /// `karpenter.sh/do-not-disrupt` holds on the Node.
    pub do_not_disrupt: bool,
    /// When a recent plan sent pods there, until when that promise protects it.
    pub nominated_until: Option<Millis>,
    /// What it costs; `None` when its type is unknown.
    pub price: Option<MicroDollars>,
    /// When its NodeClaim was made.
    pub created: Millis,
    /// When it expires, if ever.
    pub expires: Option<Millis>,
    /// `terminationGracePeriod` in milliseconds: drift and expiry need not respect what holds its pods, for the drain ends.
    pub termination_grace: Option<i64>,
    /// Set when it is not any more what its pool and class ask for.
    pub drifted: Option<Drifted>,
    /// Set when it is unhealthy and node repair is on: from when on it may be replaced, and why.
    pub sick: Option<Unhealthy>,
    /// What it really uses, by a report that is fresh and its own.
    pub usage: Option<Usage>,
}

/// A node that is not any more what its pool and class ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Drifted {
    /// Since when; those that drifted first are replaced first.
    pub since: Millis,
    /// The condition's reason, such as `NodePoolDrifted`.
    pub reason: String,
}

/// A node that is unhealthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Unhealthy {
    /// From when on it is replaced if it does not get well.
    pub due: Millis,
    /// The condition that says so, such as `Ready`.
    pub condition: String,
}

/// What a node really uses, as its agent reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// 95th percentile of the CPU that its pods use, in millicores.
    pub cpu: i64,
    /// 95th percentile of their working set, in bytes.
    pub memory: i64,
    /// What it is short of already: stalls, or pods that were killed for want of memory.
    pub pressed: Option<Pressure>,
    /// What each of its pods stays within for 95 % of the time, added up: more than `cpu` and `memory`, for they do not peak
    /// together. Zero where that is not known.
    pub of_pods: Size,
    /// What pods use on top that came too lately to show in `cpu` and `memory`; where nobody has seen one yet, what it requests.
    pub newcomers: Size,
}

/// What a node is short of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Pressure {
    /// Processes wait for a CPU much of the time.
    Cpu,
    /// Processes wait for memory.
    Memory,
    /// All processes wait for a disk.
    Disk,
    /// Processes were killed for want of memory.
    Killed,
}

impl Node {
    /// Whether it is as old as it may get and has never been ready for pods: nobody counts on it any more.
    #[must_use]
    pub fn never_registered(&self, now: Millis) -> bool {
        self.claim.is_some() && self.stage != Stage::Initialized && self.expires.is_some_and(|at| at <= now)
    }

    /// The taints that count for pods. A cordon is one, whether its taint is there yet or not.
    #[must_use]
    pub fn repelling(&self) -> Cow<'_, [Taint]> {
        if !self.unschedulable || self.taints.iter().any(|taint| taint.key == CORDON) {
            return Cow::Borrowed(&self.taints);
        }
        let cordon = Taint { key: CORDON.to_owned(), value: String::new(), effect: Effect::NoSchedule };
        self.taints.iter().cloned().chain([cordon]).collect()
    }
}

/// A pod that runs on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BoundPod {
    /// The pod's UID.
    pub uid: String,
    /// `namespace/name`.
    pub name: String,
    /// Whether it would need another place when the node goes: alive, or ending and to be made anew under its name
    /// by a StatefulSet.
    pub reschedulable: bool,
    /// Whether an active `karpenter.sh/do-not-disrupt` annotation holds the node, also of a pod that goes with it.
    pub do_not_disrupt: bool,
    /// Until when it does, where it names a time.
    pub protected_until: Option<Millis>,
    /// The PodDisruptionBudgets that would not let it go now: one that allows none, or more than one, which no eviction passes.
    pub held_by: Vec<String>,
    /// What evicting it counts for: [`BoundPod::COST`] as a rule, more or less by its deletion cost and priority.
    pub cost: i64,
    /// Its workload, where that asks to be disturbed but once in a while: `Kind namespace/name`. [`super::Snapshot::resting`] has until
    /// when it rests.
    pub workload: Option<Arc<str>>,
    /// What other pods look at in it: namespace, labels, terms, ports, volumes. Pods of one owner share it. Its requests are those
    /// that the pod would be made anew with; what it takes of its node stands in the node's `used`.
    pub shape: Arc<PodShape>,
    /// `namespace/name` of its volume claims, one for each of the shape's `volumes`.
    pub claims: Vec<String>,
    /// How its workload is split over on-demand and spot, if it asks for that.
    pub mix: Option<Arc<CapacitySplit>>,
    /// On its way out: it still has its room, ports and volumes, but counts for no topology.
    pub ending: bool,
    /// What it stays within for 95 % of the time; `None` where nobody has seen that.
    pub used: Option<Size>,
    /// What it requests and uses, container by container, where its pool packs or its requests were lowered.
    pub sizing: Option<Box<Sizing>>,
    /// Whether a copy of it is to be up before it is evicted.
    pub surges: bool,
}

impl BoundPod {
    /// What evicting a pod counts for that says nothing of it: Karpenter's 1.0, in units of 2^-27.
    pub const COST: i64 = 1 << 27;

    /// What evicting a pod of this deletion cost and priority counts for.
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
            workload: None,
            shape: Arc::default(),
            claims: Vec::new(),
            mix: None,
            ending: false,
            used: None,
            sizing: None,
            surges: false,
        }
    }
}
