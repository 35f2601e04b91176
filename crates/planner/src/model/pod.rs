//! Pods by shape: the constraints that the scheduler evaluates are stored once for all pods that share them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CapacitySplit, LaunchPause, Millis, PodPreference, PodTerm, Requirement, Resources, Spread};

/// Pod that needs a place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// UID of the pod.
    pub uid: String,
    /// `namespace/name`.
    pub name: String,
    /// Position of its shape in the snapshot.
    pub shape: usize,
    /// Creation time, the third key of the queue's order.
    pub created: Millis,
    /// Node that the pod still runs on, when that node is leaving.
    pub leaving_node: Option<String>,
    /// Node or claim of a recent nomination; kept while the pod fits there, so that plans do not swap pods.
    pub nominated: Option<String>,
    /// Position of this nomination among all of them. Nominations are kept in this order, because a later one may depend on an
    /// earlier one.
    pub nominated_after: usize,
    /// `namespace/name` of its volume claims, one for each of the shape's `volumes`; pods can share a claim.
    pub claims: Vec<String>,
    /// Object that keeps capacity with this pod, which exists only in the plan and is never bound.
    pub holder: Option<CapacityHolder>,
    /// Split of its workload over on-demand and spot, if requested.
    pub mix: Option<Arc<CapacitySplit>>,
    /// Group of pods that get their places together or not at all, unless enough of them run already.
    pub group: Option<Arc<PodGroup>>,
}

/// Object that keeps capacity free for pods that do not exist yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CapacityHolder {
    /// ProvisioningRequest as `namespace/name`. It keeps the nodes of its capacity, because its pods come within minutes.
    Request(String),
    /// CapacityBuffer as `namespace/name`. It keeps capacity, but no particular node.
    Buffer(String),
}

impl fmt::Display for CapacityHolder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Buffer(name) => write!(out, "CapacityBuffer {name}"),
            Self::Request(name) => write!(out, "ProvisioningRequest {name}"),
        }
    }
}

/// Pods that get their places together or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodGroup {
    /// Name, `namespace/name`.
    pub name: String,
    /// Number of pods that the group needs.
    pub least: u32,
    /// Number of its pods that have a node and stay there, or are complete.
    pub running: u32,
}

impl PodGroup {
    /// Returns how many of the pending pods must get a place.
    #[must_use]
    pub fn missing(&self) -> u32 {
        self.least.saturating_sub(self.running)
    }
}

/// All constraints on the placement of a pod, without its own names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodShape {
    /// Requests of the whole pod, with `pods` = 1.
    pub requests: Resources,
    /// Requirements of the node selector.
    pub selector: Vec<Requirement>,
    /// Required node affinity: alternatives in order, each a conjunction; empty means none.
    pub affinity: Vec<Vec<Requirement>>,
    /// Tolerations of the pod.
    pub tolerations: Vec<Toleration>,
    /// Priority; pods with a higher one are placed first.
    pub priority: i32,
    /// Namespace, to which the pod's namespaced terms refer.
    pub namespace: String,
    /// Labels that a selector of some pod uses; other labels would only distinguish shapes of equal pods.
    pub labels: BTreeMap<String, String>,
    /// Preferred node affinity.
    pub preferred: Vec<NodePreference>,
    /// Topology spread constraints, hard and soft.
    pub spread: Vec<Spread>,
    /// Required pod affinity.
    pub near: Vec<PodTerm>,
    /// Required pod anti-affinity.
    pub apart: Vec<PodTerm>,
    /// Preferred pod affinity.
    pub prefers_near: Vec<PodPreference>,
    /// Preferred pod anti-affinity.
    pub prefers_apart: Vec<PodPreference>,
    /// Host ports.
    pub ports: Vec<HostPort>,
    /// Persistent and ephemeral volumes.
    pub volumes: Vec<VolumeNeed>,
    /// NodePools that launch no node for the pods now.
    pub paused: Vec<LaunchPause>,
}

impl PodShape {
    /// Returns the pause of launches for the pods in a NodePool.
    #[must_use]
    pub fn pause_in(&self, pool: &str) -> Option<&LaunchPause> {
        self.paused.iter().find(|pause| pause.pool == pool)
    }
}

/// Preferred node affinity term of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePreference {
    /// Weight, 1 to 100.
    pub weight: i32,
    /// Requirements, a conjunction.
    pub term: Vec<Requirement>,
}

/// Host port.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostPort {
    /// Address of the node; `0.0.0.0`, also the default, means all addresses.
    pub ip: String,
    /// Port number, 1 to 65,535.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
}

/// Constraints of a volume on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeNeed {
    /// CSI driver whose attachments are counted; `None` for volumes that are not counted.
    pub driver: Option<String>,
    /// Locations where the volume exists or can be created: alternatives of conjunctions; empty means any location.
    pub alternatives: Vec<Vec<Requirement>>,
}

impl HostPort {
    /// Reports whether two pods with these ports cannot share a node.
    #[must_use]
    pub fn clashes(&self, other: &Self) -> bool {
        const ALL: &str = "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip == ALL || other.ip == ALL)
    }
}

/// Pod of one DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Daemon {
    /// `namespace/name` of the DaemonSet.
    pub name: String,
    /// Shape of its pod, without the node name that DaemonSet pods require.
    pub shape: PodShape,
}

/// Node taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Key of the taint.
    pub key: String,
    /// Value of the taint, often empty.
    #[serde(default)]
    pub value: String,
    /// Effect on pods that do not tolerate it.
    pub effect: Effect,
}

impl fmt::Display for Taint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value.as_str() {
            "" => write!(out, "{}:{:?}", self.key, self.effect),
            value => write!(out, "{}={value}:{:?}", self.key, self.effect),
        }
    }
}

/// Effect of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Effect {
    /// New pods are not scheduled.
    NoSchedule,
    /// New pods are scheduled elsewhere where possible.
    PreferNoSchedule,
    /// New pods are not scheduled, and running pods are evicted.
    NoExecute,
}

/// Toleration of a pod; an absent key (with `Exists`) or effect matches all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Key, `None` for every key.
    pub key: Option<String>,
    /// Comparison of the value.
    pub operator: TolerationOperator,
    /// Value for `Equal`.
    #[serde(default)]
    pub value: String,
    /// Effect, `None` for every effect.
    pub effect: Option<Effect>,
}

/// Operator of a toleration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TolerationOperator {
    /// Key and value must be equal.
    Equal,
    /// Only the key must be equal.
    Exists,
}

impl Toleration {
    /// Reports whether this toleration matches `taint`.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let key = self.key.as_ref().is_none_or(|key| *key == taint.key);
        let effect = self.effect.is_none_or(|effect| effect == taint.effect);
        let value = match self.operator {
            TolerationOperator::Exists => true,
            TolerationOperator::Equal => self.value == taint.value,
        };
        key && effect && value
    }
}
