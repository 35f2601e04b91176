//! NodeClaim (`karpenter.sh/v1`): one node, from its request to its termination.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::nodepool::{NodeClassRef, default_expire_after};
use super::requirement::Requirement;
use super::schema_rules::{DURATION, DURATION_OR_NEVER, Keys, cel_rule, items, requirements};
use super::status::{self, Condition, Conditioned};
use super::taint::Taint;
use crate::names::{annotation, condition, label};
use crate::units::duration::DurationText;
use crate::units::quantity::Quantity;

/// Time after a takeover from another controller in which its nodes are not consolidated.
const ADOPTION_REST: SignedDuration = SignedDuration::from_mins(10);

/// Requested properties of one node. Immutable.
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
    printcolumn = r#"{"name":"Type","type":"string","jsonPath":".metadata.labels.node\\.kubernetes\\.io/instance-type"}"#,
    printcolumn = r#"{"name":"Capacity","type":"string","jsonPath":".metadata.labels.karpenter\\.sh/capacity-type"}"#,
    printcolumn = r#"{"name":"Zone","type":"string","jsonPath":".metadata.labels.topology\\.kubernetes\\.io/zone"}"#,
    printcolumn = r#"{"name":"Node","type":"string","jsonPath":".status.nodeName"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"ImageID","type":"string","jsonPath":".status.imageID","priority":1}"#,
    printcolumn = r#"{"name":"ID","type":"string","jsonPath":".status.providerID","priority":1}"#,
    printcolumn = r#"{"name":"NodePool","type":"string","jsonPath":".metadata.labels.karpenter\\.sh/nodepool","priority":1}"#,
    printcolumn = r#"{"name":"NodeClass","type":"string","jsonPath":".spec.nodeClassRef.name","priority":1}"#,
    printcolumn = r#"{"name":"Drifted","type":"string","jsonPath":".status.conditions[?(@.type==\"Drifted\")].status","priority":1}"#,
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [cel_rule("self == oldSelf", "spec is immutable")]))]
pub struct NodeClaimSpec {
    /// Taints of the node. Pods must tolerate them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub taints: Option<Vec<Taint>>,
    /// Taints that the node has at its start and that other programs remove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub startup_taints: Option<Vec<Taint>>,
    /// Requirements on the labels of the node.
    // Shared, because a NodeClaim is copied often and can list many instance types.
    #[schemars(transform = requirements(Keys::OfClaim))]
    pub requirements: Arc<[Requirement]>,
    /// Resources that the node must provide.
    #[serde(default, skip_serializing_if = "ResourceRequirements::is_empty")]
    pub resources: ResourceRequirements,
    /// Reference to the node class with the launch settings.
    pub node_class_ref: NodeClassRef,
    /// Maximum duration of the node's drain. Afterwards the node is terminated regardless of blocking pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = DURATION))]
    pub termination_grace_period: Option<DurationText>,
    /// Age at which the node is replaced, or `Never`.
    #[serde(default = "default_expire_after")]
    #[schemars(extend("pattern" = DURATION_OR_NEVER))]
    pub expire_after: DurationText,
}

/// Resources that a node must provide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRequirements {
    /// Minimum amounts, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
}

impl ResourceRequirements {
    fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

/// Observed state of a NodeClaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Name of the Node.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// Provider id of the instance: `aws:///ZONE/INSTANCE-ID`.
    #[serde(default, rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// Id of the image of the instance.
    #[serde(default, rename = "imageID", skip_serializing_if = "String::is_empty")]
    pub image_id: String,
    /// Capacity of the node, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Capacity for pods, by resource.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// Conditions of the NodeClaim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    // Earlier versions wrote conditions without a reason. If the API server refused their status, their instances would be
    // orphaned.
    #[schemars(transform = items(json!({ "required": ["lastTransitionTime", "status", "type"] })))]
    pub conditions: Vec<Condition>,
    /// Time at which a pod last came to the node or left it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_pod_event_time: Option<Time>,
}

impl NodeClaim {
    /// Returns the name of the NodePool, or an empty name without the label.
    #[must_use]
    pub fn nodepool(&self) -> &str {
        self.metadata.labels.as_ref().and_then(|labels| labels.get(label::NODEPOOL)).map_or("", String::as_str)
    }

    /// Returns the provider id, once the NodeClaim is launched.
    #[must_use]
    pub fn provider_id(&self) -> Option<&str> {
        self.status.as_ref().map(|status| status.provider_id.as_str()).filter(|id| !id.is_empty())
    }

    /// Returns EC2's id of the instance, once the NodeClaim is launched.
    #[must_use]
    pub fn instance_id(&self) -> Option<&str> {
        self.provider_id()?.rsplit('/').next()
    }

    /// Returns the client token of the CreateFleet request that launches the NodeClaim.
    #[must_use]
    pub fn launch_token(&self) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(annotation::LAUNCH_TOKEN).map(String::as_str)
    }

    /// Returns the NodeClaims that must be initialized before this one is removed, as listed in the annotation. Returns `None`
    /// if no command removes this one.
    #[must_use]
    pub fn replaced_by(&self) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(annotation::REPLACED_BY).map(String::as_str).filter(|it| !it.is_empty())
    }

    /// Reports whether Kerf lowered requests of a pod on the NodeClaim's node.
    #[must_use]
    pub fn has_lowered_requests(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(annotation::REQUESTS_LOWERED)).is_some_and(|text| text == annotation::TRUE)
    }

    /// Returns the NodeClaims that are removed once this one is initialized.
    pub fn replaces(&self) -> impl Iterator<Item = &str> {
        let list = self.metadata.annotations.as_ref().and_then(|all| all.get(annotation::REPLACES));
        list.into_iter().flat_map(|names| names.split(',')).filter(|name| !name.is_empty())
    }

    /// Returns the time since which no pod has come or left: the initialization or the last pod event, the later of both. The
    /// first minutes after a takeover from another controller count as a change. Returns `None` before the initialization.
    #[must_use]
    pub fn quiet_since(&self) -> Option<Timestamp> {
        let initialized = status::find(self.conditions(), condition::INITIALIZED).filter(|found| found.is_true())?;
        let visited = self.status.as_ref().and_then(|status| status.last_pod_event_time.as_ref()).map(|at| at.0);
        [visited, self.adoption_ends(), Some(initialized.last_transition_time.0)].into_iter().max().flatten()
    }

    /// Returns the end of the rest after a takeover from another controller.
    fn adoption_ends(&self) -> Option<Timestamp> {
        let adopted = self.metadata.annotations.as_ref()?.get(annotation::ADOPTED_AT)?.parse::<Timestamp>().ok()?;
        adopted.checked_add(ADOPTION_REST).ok()
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
