//! CapacityBuffer (`autoscaling.x-k8s.io/v1beta1`): capacity that is kept free for future pods.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::schema_rules::cel_rule;
use super::status::Condition;
use crate::units::quantity::{InvalidQuantity, Quantity};

/// Strategy that keeps nodes running for future pods. Kerf supports no other strategy.
pub const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";
/// Priority of the pods of a buffer. All other pods have a greater one.
pub const PRIORITY: i32 = i32::MIN;
/// API group of the workloads that a buffer can refer to.
const APPS: &str = "apps";
/// Kinds of the workloads that a buffer can refer to.
pub const SCALABLE_KINDS: [&str; 3] = ["Deployment", "ReplicaSet", "StatefulSet"];

/// Pods for which capacity is kept free, and their number.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "autoscaling.x-k8s.io",
    version = "v1beta1",
    kind = "CapacityBuffer",
    plural = "capacitybuffers",
    shortname = "cb",
    category = "autoscaling",
    namespaced,
    status = "CapacityBufferStatus",
    derive = "PartialEq",
    doc = "Capacity that is kept free for future pods.",
    printcolumn = r#"{"name":"Strategy","type":"string","jsonPath":".spec.provisioningStrategy"}"#,
    printcolumn = r#"{"name":"PodTemplate","type":"string","jsonPath":".status.podTemplateRef.name"}"#,
    printcolumn = r#"{"name":"Replicas","type":"integer","jsonPath":".status.replicas"}"#,
    printcolumn = r#"{"name":"ConditionsType","type":"string","jsonPath":".status.conditions[*].type"}"#,
    printcolumn = r#"{"name":"ConditionsStatus","type":"string","jsonPath":".status.conditions[*].status"}"#,
    printcolumn = r#"{"name":"ConditionsReason","type":"string","jsonPath":".status.conditions[*].reason"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    cel_rule(
        "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
        "'podTemplateRef' needs 'replicas' or 'limits': they say how many pods",
    ),
    cel_rule(
        "!(has(self.podTemplateRef) && has(self.scalableRef))",
        "'podTemplateRef' and 'scalableRef' exclude each other",
    ),
]))]
pub struct CapacityBufferSpec {
    /// Strategy of the buffer. Kerf ignores buffers with a strategy other than active capacity.
    #[serde(default = "active_capacity")]
    pub provisioning_strategy: String,
    /// PodTemplate of one pod of the buffer, in the namespace of the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Workload whose pod template the buffer uses, in the namespace of the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableRef>,
    /// Minimum number of pods of the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub replicas: Option<i32>,
    /// Number of pods of the buffer in percent of the workload's replicas, rounded up, at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub percentage: Option<i32>,
    /// Maximum of the pods' requests together, by resource. Without `replicas` and `percentage` the limits define the number of
    /// pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, Quantity>>,
}

fn active_capacity() -> String {
    ACTIVE_CAPACITY.to_owned()
}

/// Reference to an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalObjectRef {
    /// Name of the object.
    #[schemars(extend("minLength" = 1))]
    pub name: String,
}

/// Reference to a workload in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalableRef {
    /// API group of the workload. Absent or empty: `apps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind of the workload: Deployment, ReplicaSet or StatefulSet.
    #[schemars(extend("minLength" = 1))]
    pub kind: String,
    /// Name of the workload.
    #[schemars(extend("minLength" = 1))]
    pub name: String,
}

impl ScalableRef {
    /// Reports whether Kerf supports workloads of this group and kind.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        let group = self.api_group.as_deref().unwrap_or_default();
        (group.is_empty() || group == APPS) && SCALABLE_KINDS.contains(&self.kind.as_str())
    }
}

/// Observed state of a CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// PodTemplate that the buffer resolved to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Number of pods of the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Generation of the PodTemplate that the buffer resolved to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// Strategy that the buffer was resolved with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// Conditions of the buffer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl CapacityBufferSpec {
    /// Reports whether Kerf handles the buffer, because its strategy is active capacity.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.provisioning_strategy == ACTIVE_CAPACITY
    }

    /// Returns the number of pods of the buffer. `scalable` is the number of replicas of the workload, `None` for a buffer with
    /// a template. `requests` are those of one pod, in the units of [`crate::objects::pod_requests`]. Returns `None` if nothing
    /// defines the number: no `replicas`, no applicable `percentage`, and no limit on a requested resource.
    ///
    /// # Errors
    /// Returns an error with the text if a limit is not a quantity.
    pub fn desired_pods(
        &self,
        scalable: Option<i32>,
        requests: &BTreeMap<String, i64>,
    ) -> Result<Option<i32>, InvalidQuantity> {
        let share = scalable.zip(self.percentage).map(|(replicas, percent)| share(replicas, percent));
        let requested = self.replicas.max(share);
        let limit = self.pods_within_limits(requests)?;
        Ok(requested.map_or(limit, |requested| Some(limit.map_or(requested, |limit| requested.min(limit)).max(0))))
    }

    /// Returns the number of pods that fit into the limits. Limits on resources that the pod does not request are ignored.
    fn pods_within_limits(&self, requests: &BTreeMap<String, i64>) -> Result<Option<i32>, InvalidQuantity> {
        let mut least = None;
        for (resource, limit) in self.limits.iter().flatten() {
            let limit = limit.amount(resource)?;
            let Some(request) = requests.get(resource).filter(|request| **request > 0) else { continue };
            let pods = i32::try_from(limit.max(0) / request).unwrap_or(i32::MAX);
            least = Some(least.map_or(pods, |least: i32| least.min(pods)));
        }
        Ok(least)
    }
}

/// Returns a percentage of a number of replicas, rounded up, at least one.
fn share(replicas: i32, percent: i32) -> i32 {
    let hundredths = i64::from(replicas.max(0)) * i64::from(percent.max(0));
    i32::try_from((hundredths + 99) / 100).unwrap_or(i32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn desired(spec: &Value, scalable: Option<i32>) -> Option<i32> {
        let spec: CapacityBufferSpec = serde_json::from_value(spec.clone()).unwrap();
        let requests = BTreeMap::from([("cpu".to_owned(), 1500), ("memory".to_owned(), 1 << 30)]);
        spec.desired_pods(scalable, &requests).unwrap()
    }

    #[test]
    fn desired_pods_combines_replicas_percentage_and_limits() {
        let rows = [
            ("a number", json!({ "replicas": 3 }), None, Some(3)),
            ("none", json!({ "replicas": 0 }), None, Some(0)),
            ("a share", json!({ "percentage": 20 }), Some(10), Some(2)),
            ("a share is rounded up", json!({ "percentage": 21 }), Some(10), Some(3)),
            ("a share is at least one", json!({ "percentage": 1 }), Some(0), Some(1)),
            ("the greater of both", json!({ "replicas": 1, "percentage": 50 }), Some(10), Some(5)),
            ("the greater of both, the other way", json!({ "replicas": 9, "percentage": 50 }), Some(10), Some(9)),
            ("no share of a template", json!({ "replicas": 1, "percentage": 500 }), None, Some(1)),
            ("as many as fit", json!({ "limits": { "cpu": "7" } }), None, Some(4)),
            ("the tightest limit", json!({ "limits": { "cpu": "7", "memory": "2Gi" } }), None, Some(2)),
            ("limits hold numbers back", json!({ "replicas": 9, "limits": { "memory": "2Gi" } }), None, Some(2)),
            ("limits allow more", json!({ "replicas": 1, "limits": { "memory": "2Gi" } }), None, Some(1)),
            ("limits of something else", json!({ "replicas": 2, "limits": { "nvidia.com/gpu": "1" } }), None, Some(2)),
            ("nothing says", json!({ "limits": { "nvidia.com/gpu": "1" } }), None, None),
            ("nothing at all", json!({}), Some(5), None),
        ];
        for (name, spec, scalable, expected) in rows {
            assert_eq!(desired(&spec, scalable), expected, "{name}");
        }
    }

    #[test]
    fn is_supported_accepts_workloads_of_group_apps() {
        let rows = [
            (None, "Deployment", true),
            (Some(""), "StatefulSet", true),
            (Some("apps"), "ReplicaSet", true),
            (Some("apps"), "DaemonSet", false),
            (Some("batch"), "Deployment", false),
        ];
        for (group, kind, expected) in rows {
            let named =
                ScalableRef { api_group: group.map(str::to_owned), kind: kind.to_owned(), name: "a".to_owned() };
            assert_eq!(named.is_supported(), expected, "{named:?}");
        }
    }
}
