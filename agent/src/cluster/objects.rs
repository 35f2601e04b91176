//! The few fields of Kubernetes objects that the agent reads. Everything has a default: an odd object must not stop a drain.

use std::collections::BTreeMap;

use api::condition;
use jiff::Timestamp;
use serde::Deserialize;

/// `metadata` of any object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Unique in its namespace.
    pub name: String,
    /// Empty for Nodes.
    pub namespace: String,
    /// Unique for ever.
    pub uid: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Who made it.
    pub owner_references: Vec<Owner>,
    /// When a deletion shall have ended.
    pub deletion_timestamp: Option<Timestamp>,
}

/// One owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Owner {
    /// `DaemonSet`, `ReplicaSet`, `Node`, ...
    pub kind: String,
    /// Whether it is the managing one.
    pub controller: bool,
}

/// A Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Its metadata.
    pub metadata: Metadata,
    /// What was asked of it.
    pub spec: NodeSpec,
    /// What it reports.
    pub status: NodeStatus,
}

/// `spec` of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// `aws:///ZONE/INSTANCE-ID`.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// Whether it is cordoned.
    pub unschedulable: bool,
}

/// `status` of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Its conditions.
    pub conditions: Vec<NodeCondition>,
    /// What it has for pods, by resource, as text.
    pub allocatable: BTreeMap<String, String>,
    /// Volumes that are attached to its machine.
    #[serde(rename = "volumesAttached")]
    pub volumes_attached: Vec<AttachedVolume>,
}

/// A volume attached to a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AttachedVolume {
    /// Such as `kubernetes.io/csi/ebs.csi.aws.com^vol-1`.
    pub name: String,
}

/// A Node's condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// In one word.
    pub reason: String,
    /// In a sentence.
    pub message: String,
    /// When `status` changed last.
    pub last_transition_time: Option<Timestamp>,
    /// When someone last said so.
    pub last_heartbeat_time: Option<Timestamp>,
}

impl Node {
    /// The condition of this type.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Its metadata.
    pub metadata: Metadata,
    /// What was asked of it.
    pub spec: PodSpec,
    /// What became of it.
    pub status: PodStatus,
}

/// `spec` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Its priority class.
    pub priority_class_name: String,
    /// Seconds to stop in; the API server defaults it to 30.
    pub termination_grace_period_seconds: Option<u64>,
    /// Taints that it bears.
    pub tolerations: Vec<Toleration>,
    /// Its priority, which admission works out of the class.
    pub priority: i32,
    /// Its volumes.
    pub volumes: Vec<Volume>,
    /// Its containers.
    pub containers: Vec<Container>,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Container {
    /// What it may use.
    pub resources: Resources,
}

/// What a container may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Quantities by resource.
    pub requests: BTreeMap<String, String>,
}

impl PodSpec {
    /// What its containers request of a resource together; what is no quantity counts as nothing.
    #[must_use]
    pub fn requested(&self, resource: &str) -> i64 {
        let requests = self.containers.iter().filter_map(|it| it.resources.requests.get(resource));
        requests.filter_map(|text| api::quantity::amount(resource, text).ok()).fold(0, i64::saturating_add)
    }

    /// Its volumes that are claims.
    #[must_use]
    pub fn claims(&self) -> u32 {
        let claims = self.volumes.iter().filter(|volume| volume.persistent_volume_claim.is_some());
        u32::try_from(claims.count()).unwrap_or(u32::MAX)
    }
}

/// A volume of a pod, as far as it may be attached to the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// The PersistentVolumeClaim that it is.
    pub persistent_volume_claim: Option<ClaimRef>,
}

/// A claim; which one does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ClaimRef {}

/// A toleration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// The taint's key; empty means every one.
    pub key: String,
    /// `Exists` or `Equal` (also when empty).
    pub operator: String,
    /// The taint's value, for `Equal`.
    pub value: String,
    /// The taint's effect; empty means every one.
    pub effect: String,
}

impl Toleration {
    /// Whether it bears a taint of this key and effect without a value.
    #[must_use]
    pub fn bears(&self, key: &str, effect: &str) -> bool {
        let exists = self.operator == "Exists";
        let same_key = self.key == key || (self.key.is_empty() && exists);
        let same_effect = self.effect.is_empty() || self.effect == effect;
        same_key && same_effect && (exists || self.value.is_empty())
    }
}

/// `status` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// When kubelet took it.
    pub start_time: Option<Timestamp>,
    /// Its conditions.
    pub conditions: Vec<PodCondition>,
}

/// A pod's condition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

impl Pod {
    /// Whether it serves, and goes on to.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let ready = |it: &PodCondition| it.kind == condition::READY && it.status == condition::TRUE;
        self.metadata.deletion_timestamp.is_none() && self.status.conditions.iter().any(ready)
    }
}

/// A CSINode: which drivers have registered on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct CsiNode {
    pub(super) spec: CsiNodeSpec,
}

/// `spec` of a CSINode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct CsiNodeSpec {
    pub(super) drivers: Vec<CsiDriver>,
}

/// One driver of a CSINode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct CsiDriver {
    pub(super) name: String,
}
