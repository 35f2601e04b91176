//! Nodes, as far as Kerf reads them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::ResourceList;
use super::meta::{nullable, slim};
use crate::{Taint, condition, label, reason};

/// A Node.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::Node", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What others demand of the Node.
    pub spec: NodeSpec,
    /// What kubelet says of the Node.
    pub status: NodeStatus,
}

/// What others demand of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// The machine's name in the cloud: `aws:///ZONE/INSTANCE-ID`; empty until kubelet or the cloud
    /// controller has set it.
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// Taints.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Whether the Node is cordoned.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unschedulable: bool,
}

/// What kubelet says of a Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// What is true of the Node.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<NodeCondition>,
    /// What the machine has, by resource.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub capacity: ResourceList,
    /// What the machine has for pods, by resource.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub allocatable: ResourceList,
    /// Identity of the running system.
    pub node_info: NodeSystemInfo,
}

/// One condition of a Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word: why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// A sentence for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the condition was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    /// When `status` last became what it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// Identity of a Node's running system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSystemInfo {
    /// Changes with every boot.
    #[serde(rename = "bootID", skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    /// Version of kubelet, with the leading `v`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kubelet_version: String,
}

impl Node {
    /// The Node's name, empty only in objects that did not come from an API server.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// The value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// The condition of that type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|c| c.type_ == type_)
    }

    /// Whether kubelet reports Ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.condition(condition::READY).is_some_and(|c| c.status == condition::TRUE)
    }

    /// What its agent has reported of a notice of EC2's. A recommendation to rebalance is none: the instance may stay for hours.
    #[must_use]
    pub fn interruption(&self) -> Option<&NodeCondition> {
        let told = self.condition(condition::INTERRUPTED)?;
        (told.status == condition::TRUE && told.reason != reason::REBALANCE_RECOMMENDATION).then_some(told)
    }

    /// Whether the claim of this Node was matched to it.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.label(label::REGISTERED) == Some(label::TRUE)
    }

    /// Whether this Node's start is over.
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        self.label(label::INITIALIZED) == Some(label::TRUE)
    }

    /// Whether the Node carries that taint, by key and effect.
    #[must_use]
    pub fn has_taint(&self, key: &str, effect: &str) -> bool {
        self.spec.taints.iter().any(|t| t.key == key && t.effect == effect)
    }
}
