//! Nodes, with the fields that Kerf uses.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::ResourceList;
use super::meta::{nullable, slim};
use crate::names::{annotation, condition, label, reason};
use crate::resources::taint::Taint;

/// Node.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::Node", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification of the Node.
    pub spec: NodeSpec,
    /// Observed state of the Node, as kubelet reports it.
    pub status: NodeStatus,
}

/// Specification of a Node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSpec {
    /// Provider id of the instance: `aws:///ZONE/INSTANCE-ID`. Empty until kubelet or the cloud controller has set it.
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// Taints.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// True if the Node is cordoned.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unschedulable: bool,
}

/// Observed state of a Node, as kubelet reports it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// Conditions of the Node.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<NodeCondition>,
    /// Capacity of the node, by resource.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub capacity: ResourceList,
    /// Capacity for pods, by resource.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub allocatable: ResourceList,
    /// Identity of the running system.
    pub node_info: NodeSystemInfo,
}

/// Condition of a Node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// Status: `True`, `False` or `Unknown`.
    pub status: String,
    /// Reason in CamelCase.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Message as text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Time of the last check of the condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    /// Time of the last change of `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// Identity of a Node's running system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSystemInfo {
    /// Id of the boot; changes with every boot.
    #[serde(rename = "bootID", skip_serializing_if = "String::is_empty")]
    pub boot_id: String,
    /// Version of kubelet, with the leading `v`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kubelet_version: String,
}

impl Node {
    /// Returns the name of the Node, empty only in objects that did not come from an API server.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns the value of an annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns the condition of this type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|c| c.type_ == type_)
    }

    /// Reports whether kubelet reports Ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.condition(condition::READY).is_some_and(|c| c.status == condition::TRUE)
    }

    /// Returns the interruption that the agent has reported. A rebalance recommendation does not count, because the instance
    /// may keep running for hours, and a reboot does not, because the instance returns.
    #[must_use]
    pub fn interruption(&self) -> Option<&NodeCondition> {
        let stays = [reason::REBALANCE_RECOMMENDATION, reason::INSTANCE_REBOOT];
        self.reported_notice().filter(|reported| !stays.contains(&reported.reason.as_str()))
    }

    /// Returns the reboot that the agent has reported.
    #[must_use]
    pub fn reboot(&self) -> Option<&NodeCondition> {
        self.reported_notice().filter(|reported| reported.reason == reason::INSTANCE_REBOOT)
    }

    fn reported_notice(&self) -> Option<&NodeCondition> {
        self.condition(condition::INTERRUPTED).filter(|reported| reported.status == condition::TRUE)
    }

    /// Returns the time of the reported interruption or reboot, from the annotation or the message; `None` without a valid one.
    #[must_use]
    pub fn interruption_deadline(&self) -> Option<jiff::Timestamp> {
        let in_message = || {
            let (_, rest) = self.reported_notice()?.message.split_once("deadline=")?;
            rest.split_whitespace().next()
        };
        self.annotation(annotation::INTERRUPTION_DEADLINE).or_else(in_message)?.parse().ok()
    }

    /// Reports whether the NodeClaim of this Node was matched to it.
    #[must_use]
    pub fn is_registered(&self) -> bool {
        self.label(label::REGISTERED) == Some(label::TRUE)
    }

    /// Reports whether this Node is initialized.
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        self.label(label::INITIALIZED) == Some(label::TRUE)
    }

    /// Reports whether the Node has this taint, compared by key and effect.
    #[must_use]
    pub fn has_taint(&self, key: &str, effect: &str) -> bool {
        self.spec.taints.iter().any(|t| t.key == key && t.effect == effect)
    }

    /// Reports whether the Node itself is do-not-disrupt. On a Node only `true` counts, because a duration would have no start.
    #[must_use]
    pub fn is_do_not_disrupt(&self) -> bool {
        self.annotation(annotation::DO_NOT_DISRUPT) == Some(annotation::TRUE)
    }

    /// Returns the value of the annotation `karpenter.sh/do-not-disrupt` if it is neither `true` nor `false`. Such a value
    /// protects nothing.
    #[must_use]
    pub fn misread_do_not_disrupt(&self) -> Option<&str> {
        self.annotation(annotation::DO_NOT_DISRUPT).filter(|text| ![annotation::TRUE, annotation::FALSE].contains(text))
    }
}
