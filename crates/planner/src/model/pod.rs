//! Pods by shape: what the scheduler looks at is kept once for all pods that share it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Millis, Requirement, Resources};

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
}

/// All that placing a pod depends on.
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
