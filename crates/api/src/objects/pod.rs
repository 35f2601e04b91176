//! Pods, as far as Kerf reads them, and what their state means for scheduling.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::ResourceList;
use super::affinity::Affinity;
use super::meta::{nullable, slim};
use super::resize::{ContainerStatus, ResizePolicy};
use super::selector::LabelSelector;
use super::storage::AwsElasticBlockStore;
use super::volume::PersistentVolumeClaimSpec;
use crate::{Taint, annotation, condition, reason, taint};

/// A Pod.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::Pod", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What the pod needs.
    pub spec: PodSpec,
    /// What has become of it.
    pub status: PodStatus,
}

/// What a pod needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The Node that the pod is bound to; empty while it has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// Labels that the pod's node must have.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Where the pod must or would like to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Taints that the pod bears.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Containers that run side by side.
    #[serde(deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    /// Containers that run one after another first; restartable ones keep running.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<Container>,
    /// What the runtime needs besides the containers.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub overhead: ResourceList,
    /// What the pod as a whole asks for; overrides the containers' sum by resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// How evenly pods are spread.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Volumes; of those without a claim only the name is kept.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Volume>,
    /// Gates that keep the scheduler from looking at the pod.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub scheduling_gates: Vec<SchedulingGate>,
    /// Devices that the pod claims by name, apart from its resources.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub resource_claims: Vec<PodResourceClaim>,
    /// Priority as a number, greater first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Name of the priority.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub priority_class_name: String,
    /// Seconds that the pod gets to end by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// Scheduler that binds the pod.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scheduler_name: String,
    /// Whether the pod uses its node's network.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub host_network: bool,
}

/// One container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Name of the container.
    pub name: String,
    /// What the container asks for.
    pub resources: ResourceRequirements,
    /// Ports; those with a host port claim it on the node.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<ContainerPort>,
    /// `Always` on an init container makes it a sidecar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// What it has to be restarted for when its requests change.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResizePolicy::is_empty")]
    pub resize_policy: ResizePolicy,
}

impl Container {
    /// Whether this init container keeps running beside the containers.
    #[must_use]
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// What a container or a pod asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceRequirements {
    /// Least amounts.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub requests: ResourceList,
    /// Greatest amounts; where a request is absent the limit stands for it.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub limits: ResourceList,
}

/// A port of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Port inside the pod.
    pub container_port: i32,
    /// Port on the node; 0 for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub host_port: i32,
    /// Address on the node; empty for all.
    #[serde(rename = "hostIP", skip_serializing_if = "String::is_empty")]
    pub host_ip: String,
    /// `TCP`, `UDP` or `SCTP`; empty for TCP.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn is_zero(value: &i32) -> bool {
    *value == 0
}

/// A taint that a pod bears.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Key of the taint; empty with `Exists` for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// `Exists`, or `Equal`, which is also what empty means.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub operator: String,
    /// Value of the taint.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Effect of the taint; empty for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub effect: String,
    /// Seconds that a NoExecute taint is borne; absent for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

impl Toleration {
    /// Whether this toleration bears the taint.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let exists = self.operator == "Exists";
        let effect = self.effect.is_empty() || self.effect == taint.effect;
        let key = self.key == taint.key || (self.key.is_empty() && exists);
        effect && key && (exists || self.value == taint.value())
    }
}

/// How evenly pods are spread over places.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopologySpreadConstraint {
    /// Greatest difference between the fullest and the emptiest place.
    pub max_skew: i32,
    /// Node label; nodes of the same value are one place.
    pub topology_key: String,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: String,
    /// The pods counted; absent means none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Least number of places; with fewer the emptiest counts as 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_domains: Option<i32>,
    /// `Honor` (also when absent) or `Ignore`: whether the pod's node affinity narrows the places.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_affinity_policy: Option<String>,
    /// `Honor` or `Ignore` (also when absent): whether nodes with taints that the pod does not bear count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_taints_policy: Option<String>,
    /// Labels of the pod itself whose values the pods counted share.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub match_label_keys: Vec<String>,
}

/// A volume of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Volume {
    /// Name inside the pod.
    pub name: String,
    /// A claim that exists by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistent_volume_claim: Option<PersistentVolumeClaimSource>,
    /// A claim that is made for the pod, named `<pod>-<volume>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral: Option<EphemeralVolume>,
    /// An EBS volume that the pod names itself, from the time before drivers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aws_elastic_block_store: Option<Box<AwsElasticBlockStore>>,
}

/// Names a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PersistentVolumeClaimSource {
    /// Name of the claim, in the pod's namespace.
    pub claim_name: String,
}

/// A claim that is made for the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EphemeralVolume {
    /// What the claim is made from; what became of it is read from the claim itself. Few pods have one, so it is boxed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_claim_template: Option<Box<VolumeClaimTemplate>>,
}

/// What the claim of an ephemeral volume is made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeClaimTemplate {
    /// Specification of the claim.
    pub spec: PersistentVolumeClaimSpec,
}

/// A device that a pod claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaim {
    /// Name inside the pod.
    pub name: String,
}

/// A gate that keeps the scheduler from looking at a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingGate {
    /// Name of the gate.
    pub name: String,
}

/// What has become of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// What is true of the pod.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PodCondition>,
    /// Node on which the scheduler makes room, or on which someone expects the pod; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub nominated_node_name: String,
    /// When kubelet took the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// What kubelet has given each container.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub container_statuses: Vec<ContainerStatus>,
}

/// One condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word: why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// When `status` last became what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

impl Pod {
    /// The pod's name, empty only in objects that did not come from an API server.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The pod's namespace, empty only in objects that did not come from an API server.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// The condition of that type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|c| c.type_ == type_)
    }

    /// Whether kubelet reports Ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.condition(condition::READY).is_some_and(|c| c.status == condition::TRUE)
    }

    /// Whether the pod has ended by itself and uses nothing any more.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether someone has asked for the pod's end.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether the pod is bound to a Node.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        !self.spec.node_name.is_empty()
    }

    /// The owner that manages the pod.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        let owners = self.metadata.owner_references.as_ref()?;
        owners.iter().find(|o| o.controller == Some(true))
    }

    /// Whether a DaemonSet owns the pod.
    #[must_use]
    pub fn is_daemon(&self) -> bool {
        self.is_owned_by("apps/v1", "DaemonSet")
    }

    /// Whether a StatefulSet owns the pod.
    #[must_use]
    pub fn is_stateful(&self) -> bool {
        self.is_owned_by("apps/v1", "StatefulSet")
    }

    /// Whether the pod comes from a file of its Node: the Node owns it, or kubelet mirrors it.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.is_owned_by("v1", "Node") || self.annotation(annotation::MIRROR_POD).is_some()
    }

    /// Whether anyone could evict the pod now, if no PodDisruptionBudget stood in the way: not one that is on its way out, that
    /// comes from a file, that asks to stay until its node is gone, or that may not be disturbed.
    #[must_use]
    pub fn is_evictable(&self, now: Timestamp) -> bool {
        let disrupted = Taint::new(taint::DISRUPTED, taint::NO_SCHEDULE);
        !self.is_terminal()
            && !self.is_terminating()
            && !self.is_static()
            && !self.spec.tolerations.iter().any(|toleration| toleration.tolerates(&disrupted))
            && !self.is_do_not_disrupt(now)
    }

    /// What the pod says that its end costs (`controller.kubernetes.io/pod-deletion-cost`); 0 where it says nothing, or
    /// something that the API server would not have taken.
    #[must_use]
    pub fn deletion_cost(&self) -> i32 {
        self.annotation(annotation::POD_DELETION_COST).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    fn is_owned_by(&self, api_version: &str, kind: &str) -> bool {
        let owners = self.metadata.owner_references.as_deref();
        owners.unwrap_or_default().iter().any(|o| o.api_version == api_version && o.kind == kind)
    }

    /// Whether the scheduler has found no place for the pod, so that only a new node can help.
    ///
    /// The scheduler's name is not looked at; gated pods have another reason; pods of DaemonSets and Nodes come with their node. That
    /// the scheduler makes room for the pod shows on the node that it was nominated to, not here.
    #[must_use]
    pub fn is_unschedulable(&self) -> bool {
        let refused = self.condition(condition::POD_SCHEDULED).is_some_and(|c| c.reason == reason::UNSCHEDULABLE);
        refused
            && !self.is_bound()
            && !self.is_terminal()
            && !self.is_terminating()
            && !self.is_daemon()
            && !self.is_static()
    }

    /// Whether the scheduler has not looked at the pod yet.
    #[must_use]
    pub fn is_unjudged(&self) -> bool {
        self.condition(condition::POD_SCHEDULED).is_none()
            && !self.is_bound()
            && !self.is_terminal()
            && !self.is_terminating()
            && !self.is_daemon()
            && !self.is_static()
    }
}
