//! The fields of Kubernetes objects that the agent reads. Each field has a default: an unusual object must not stop a drain.

use std::collections::BTreeMap;

use api::condition;
use jiff::Timestamp;
use serde::Deserialize;

/// `metadata` of any object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name, unique in its namespace.
    pub name: String,
    /// Namespace; empty for Nodes.
    pub namespace: String,
    /// UID, never reused.
    pub uid: String,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Owners of the object.
    pub owner_references: Vec<Owner>,
    /// Time by which a deletion should have ended.
    pub deletion_timestamp: Option<Timestamp>,
}

/// One owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Owner {
    /// `DaemonSet`, `ReplicaSet`, `Node`, ...
    pub kind: String,
    /// Marks the managing owner.
    pub controller: bool,
}

/// A Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Metadata.
    pub metadata: Metadata,
    /// Desired state.
    pub spec: NodeSpec,
    /// Reported state.
    pub status: NodeStatus,
}

/// `spec` of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// `aws:///ZONE/INSTANCE-ID`.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// Marks a cordoned Node.
    pub unschedulable: bool,
}

/// `status` of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// Conditions of the Node.
    pub conditions: Vec<NodeCondition>,
    /// Allocatable quantities for pods, by resource, as text.
    pub allocatable: BTreeMap<String, String>,
    /// Volumes that are attached to the machine.
    #[serde(rename = "volumesAttached")]
    pub volumes_attached: Vec<AttachedVolume>,
}

/// A volume attached to a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AttachedVolume {
    /// Name, such as `kubernetes.io/csi/ebs.csi.aws.com^vol-1`.
    pub name: String,
}

/// Condition of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason in CamelCase.
    pub reason: String,
    /// Message for users.
    pub message: String,
    /// Time of the last change of `status`.
    pub last_transition_time: Option<Timestamp>,
    /// Time of the last report.
    pub last_heartbeat_time: Option<Timestamp>,
}

impl Node {
    /// Returns the condition of this type.
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Metadata.
    pub metadata: Metadata,
    /// Desired state.
    pub spec: PodSpec,
    /// Reported state.
    pub status: PodStatus,
}

/// `spec` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Priority class.
    pub priority_class_name: String,
    /// Termination grace period in seconds; the API server defaults it to 30.
    pub termination_grace_period_seconds: Option<u64>,
    /// Tolerations of taints.
    pub tolerations: Vec<Toleration>,
    /// Priority, which admission computes from the class.
    pub priority: i32,
    /// Volumes of the pod.
    pub volumes: Vec<Volume>,
    /// Containers of the pod.
    pub containers: Vec<Container>,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Container {
    /// Resources of the container.
    pub resources: Resources,
}

/// Resources of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// Requested quantities by resource.
    pub requests: BTreeMap<String, String>,
}

impl PodSpec {
    /// Returns the sum of the requests of all containers for a resource; an invalid quantity counts as zero.
    #[must_use]
    pub fn requested(&self, resource: &str) -> i64 {
        let requests = self.containers.iter().filter_map(|it| it.resources.requests.get(resource));
        requests.filter_map(|text| api::quantity::amount(resource, text).ok()).fold(0, i64::saturating_add)
    }

    /// Returns the number of volumes that are PersistentVolumeClaims.
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
    /// The PersistentVolumeClaim of the volume.
    pub persistent_volume_claim: Option<ClaimRef>,
}

/// Reference to a PersistentVolumeClaim; its name is not needed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ClaimRef {}

/// A toleration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// Key of the taint; an empty key matches all keys.
    pub key: String,
    /// `Exists` or `Equal` (also when empty).
    pub operator: String,
    /// Value of the taint, for `Equal`.
    pub value: String,
    /// Effect of the taint; an empty effect matches all effects.
    pub effect: String,
}

impl Toleration {
    /// Reports whether it tolerates a taint of this key and effect without a value.
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
    /// Time at which kubelet accepted the pod.
    pub start_time: Option<Timestamp>,
    /// Conditions of the pod.
    pub conditions: Vec<PodCondition>,
}

/// Condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

impl Pod {
    /// Reports whether the pod is ready and not being deleted.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let ready = |it: &PodCondition| it.kind == condition::READY && it.status == condition::TRUE;
        self.metadata.deletion_timestamp.is_none() && self.status.conditions.iter().any(ready)
    }
}

/// A CSINode: the drivers that have registered on a node.
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
