//! NodeClaim (`karpenter.sh/v1`): one machine, from the wish for it to its end.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nodepool::{NodeClassRef, default_expire_after};
use crate::status::{self, Condition, Conditioned};
use crate::{DurationText, Quantity, Requirement, Taint, annotation, condition};

/// What one machine must be. Never changes.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "karpenter.sh",
    version = "v1",
    kind = "NodeClaim",
    plural = "nodeclaims",
    category = "karpenter",
    status = "NodeClaimStatus",
    derive = "PartialEq",
    doc = "One node, from its request to its termination.",
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimSpec {
    /// Taints that the node keeps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    /// Taints that the node starts with and that others lift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_taints: Option<Vec<Taint>>,
    /// What the node's labels may be.
    // Shared, for a claim is copied at each look and the types that it may have are many.
    pub requirements: Arc<[Requirement]>,
    /// What the node must have room for.
    #[serde(default, skip_serializing_if = "ResourceRequirements::is_empty")]
    pub resources: ResourceRequirements,
    /// The class that knows how to launch the machine.
    pub node_class_ref: NodeClassRef,
    /// How long the node may drain before it is taken away regardless of blocking pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period: Option<DurationText>,
    /// Age at which the node is replaced, or `Never`.
    #[serde(default = "default_expire_after")]
    pub expire_after: DurationText,
}

/// What a claim must have room for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequirements {
    /// Least amounts, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
}

impl ResourceRequirements {
    fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

/// What became of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Name of the claim's Node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// The machine's name in the cloud: `aws:///ZONE/INSTANCE-ID`.
    #[serde(default, rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// The image that the machine runs.
    #[serde(default, rename = "imageID", skip_serializing_if = "String::is_empty")]
    pub image_id: String,
    /// What the machine has, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,
    /// What the machine has for pods, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// What is true of the claim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When a pod last came to the node or left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Time>,
}

impl NodeClaim {
    /// The claims that must be initialized before this one goes, as the annotation lists them; `None` unless it is to go.
    #[must_use]
    pub fn replaced_by(&self) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(annotation::REPLACED_BY).map(String::as_str).filter(|it| !it.is_empty())
    }

    /// The claims that go once this one is initialized.
    pub fn replaces(&self) -> impl Iterator<Item = &str> {
        let list = self.metadata.annotations.as_ref().and_then(|all| all.get(annotation::REPLACES));
        list.into_iter().flat_map(|names| names.split(',')).filter(|name| !name.is_empty())
    }

    /// Since when no pod has come or gone: from its initialization or the last visit, whichever was later. `None` before that.
    #[must_use]
    pub fn quiet_since(&self) -> Option<Timestamp> {
        let initialized = status::find(self.conditions(), condition::INITIALIZED).filter(|found| found.is_true())?;
        let visited = self.status.as_ref().and_then(|status| status.last_pod_event_time.as_ref()).map(|at| at.0);
        visited.max(Some(initialized.last_transition_time.0))
    }
}

impl Conditioned for NodeClaim {
    const DEPENDENTS: &'static [&'static str] = &[condition::LAUNCHED, condition::REGISTERED, condition::INITIALIZED];

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn conditions(&self) -> &[Condition] {
        self.status.as_ref().map_or(&[], |s| &s.conditions)
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.status.get_or_insert_default().conditions
    }
}
