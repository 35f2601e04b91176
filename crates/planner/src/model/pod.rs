//! Pods by shape: what the scheduler looks at is kept once for all pods that share it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{CapacitySplit, Millis, PodPreference, PodTerm, Requirement, Resources, Spread};

/// A pod that needs a place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// The pod's UID.
    pub uid: String,
    /// `namespace/name`.
    pub name: String,
    /// Position of its shape in the snapshot.
    pub shape: usize,
    /// Creation time, the third key of the queue's order.
    pub created: Millis,
    /// The node that it still runs on, when that node is leaving.
    pub leaving_node: Option<String>,
    /// The node or claim that a recent plan promised; kept as long as the pod fits there, so that plans do not swap pods.
    pub nominated: Option<String>,
    /// Where that promise stands among all of them. They are kept in this order, since a later one may rest on an earlier.
    pub nominated_after: usize,
    /// `namespace/name` of its volume claims, one for each of the shape's `volumes`; pods can share a claim.
    pub claims: Vec<String>,
    /// `namespace/name` of the CapacityBuffer that it stands for; such a pod keeps room and is never bound.
    pub buffer: Option<String>,
    /// How its workload is split over on-demand and spot, if it asks for that.
    pub mix: Option<Arc<CapacitySplit>>,
}

/// All that placing a pod depends on, but for names of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodShape {
    /// Requests of the whole pod, with `pods` = 1.
    pub requests: Resources,
    /// The node selector's requirements.
    pub selector: Vec<Requirement>,
    /// Required node affinity: alternatives in order, each a conjunction; empty means none.
    pub affinity: Vec<Vec<Requirement>>,
    /// Taints that the pod puts up with.
    pub tolerations: Vec<Toleration>,
    /// Higher goes first.
    pub priority: i32,
    /// Whose pods count for namespaced terms.
    pub namespace: String,
    /// Labels that a selector of some pod looks at; others would only make shapes of equal pods differ.
    pub labels: BTreeMap<String, String>,
    /// Nodes that it would like.
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
    /// Ports of the node that it binds.
    pub ports: Vec<HostPort>,
    /// Its persistent and ephemeral volumes.
    pub volumes: Vec<VolumeNeed>,
}

/// Nodes that a pod would like.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePreference {
    /// How much, 1 to 100.
    pub weight: i32,
    /// A conjunction.
    pub term: Vec<Requirement>,
}

/// A port of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostPort {
    /// The node's address; `0.0.0.0` is all of them, and what an absent one means.
    pub ip: String,
    /// 1 to 65,535.
    pub port: u16,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
}

/// What a volume asks of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeNeed {
    /// The CSI driver whose attachments are counted; `None` for volumes that count for nothing.
    pub driver: Option<String>,
    /// Where the volume is or can be made: alternatives of conjunctions; empty is anywhere.
    pub alternatives: Vec<Vec<Requirement>>,
}

impl HostPort {
    /// Whether two pods with these ports cannot share a node.
    #[must_use]
    pub fn clashes(&self, other: &Self) -> bool {
        const ALL: &str = "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip == ALL || other.ip == ALL)
    }
}

/// One DaemonSet's pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Daemon {
    /// `namespace/name` of the DaemonSet.
    pub name: String,
    /// Its pod; node names that DaemonSet pods pin are already left out.
    pub shape: PodShape,
}

/// A node taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// The taint's key.
    pub key: String,
    /// The taint's value, often empty.
    #[serde(default)]
    pub value: String,
    /// What it does to pods that do not tolerate it.
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

/// A taint's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Effect {
    /// New pods stay away.
    NoSchedule,
    /// New pods stay away where they can.
    PreferNoSchedule,
    /// New pods stay away, running ones must leave.
    NoExecute,
}

/// A pod's toleration; an absent key (with `Exists`) or effect matches all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// The key, `None` for every key.
    pub key: Option<String>,
    /// How the value is compared.
    pub operator: TolerationOperator,
    /// The value for `Equal`.
    #[serde(default)]
    pub value: String,
    /// The effect, `None` for every effect.
    pub effect: Option<Effect>,
}

/// How a toleration compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TolerationOperator {
    /// Key and value must be equal.
    Equal,
    /// The key is enough.
    Exists,
}

impl Toleration {
    /// Whether this toleration puts up with `taint`.
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
