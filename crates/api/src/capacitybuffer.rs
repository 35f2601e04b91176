//! CapacityBuffer (`autoscaling.x-k8s.io/v1beta1`): room that is kept ready for pods to come.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;
use crate::quantity::InvalidQuantity;
use crate::status::Condition;

/// The strategy that keeps machines running for pods to come; the only one that Kerf serves.
pub const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";
/// Priority of the pods that a buffer stands for: everyone else's is greater.
pub const PRIORITY: i32 = i32::MIN;
/// Group of the workloads that a buffer can follow.
const APPS: &str = "apps";
/// Kinds of the workloads that a buffer can follow.
pub const SCALABLE_KINDS: [&str; 3] = ["Deployment", "ReplicaSet", "StatefulSet"];

/// For which pods room is kept ready, and for how many.
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
    crates(kube_core = "::kube_core")
)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferSpec {
    /// How room is kept ready; others than active capacity are for other programs.
    #[serde(default = "active_capacity")]
    pub provisioning_strategy: String,
    /// The template of one pod to come, in the buffer's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// The workload whose pods are to come, in the buffer's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scalable_ref: Option<ScalableRef>,
    /// Least number of pods to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Number of pods to come in percent of the workload's replicas, rounded up, at least one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentage: Option<i32>,
    /// The most that the pods to come may request together, by resource; alone it says how many there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<BTreeMap<String, Quantity>>,
}

fn active_capacity() -> String {
    ACTIVE_CAPACITY.to_owned()
}

/// Names an object in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalObjectRef {
    /// Name of the object.
    pub name: String,
}

/// Names a workload in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScalableRef {
    /// API group of the workload; absent or empty: `apps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind of the workload: Deployment, ReplicaSet or StatefulSet.
    pub kind: String,
    /// Name of the workload.
    pub name: String,
}

impl ScalableRef {
    /// Whether Kerf can follow workloads of this group and kind.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        let group = self.api_group.as_deref().unwrap_or_default();
        (group.is_empty() || group == APPS) && SCALABLE_KINDS.contains(&self.kind.as_str())
    }
}

/// What is known of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBufferStatus {
    /// The template that the buffer was resolved to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_ref: Option<LocalObjectRef>,
    /// Number of pods to come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Generation of the template that the buffer was resolved to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_template_generation: Option<i64>,
    /// The strategy that the buffer was resolved with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provisioning_strategy: Option<String>,
    /// What is true of the buffer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl CapacityBufferSpec {
    /// Whether the buffer is for Kerf: it asks for machines that run.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.provisioning_strategy == ACTIVE_CAPACITY
    }

    /// Number of pods to come, given the replicas of the workload that the buffer follows (`None` with a template of
    /// its own) and what one pod requests, in the units of [`crate::objects::pod_requests`]. `None` where nothing says
    /// how many: no number, no percentage that counts, and no limit on anything that the pod requests.
    ///
    /// # Errors
    /// When a limit is not a quantity; the error names its text.
    pub fn pods_wanted(
        &self,
        scalable: Option<i32>,
        requests: &BTreeMap<String, i64>,
    ) -> Result<Option<i32>, InvalidQuantity> {
        let share = scalable.zip(self.percentage).map(|(replicas, percent)| share(replicas, percent));
        let asked = self.replicas.max(share);
        let room = self.room(requests)?;
        Ok(asked.map_or(room, |asked| Some(room.map_or(asked, |room| asked.min(room)).max(0))))
    }

    /// How many pods the limits have room for; a limit on what no pod requests says nothing.
    fn room(&self, requests: &BTreeMap<String, i64>) -> Result<Option<i32>, InvalidQuantity> {
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

/// Percent of a number of replicas, rounded up, at least one.
fn share(replicas: i32, percent: i32) -> i32 {
    let hundredths = i64::from(replicas.max(0)) * i64::from(percent.max(0));
    i32::try_from((hundredths + 99) / 100).unwrap_or(i32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn wanted(spec: &Value, scalable: Option<i32>) -> Option<i32> {
        let spec: CapacityBufferSpec = serde_json::from_value(spec.clone()).unwrap();
        let requests = BTreeMap::from([("cpu".to_owned(), 1500), ("memory".to_owned(), 1 << 30)]);
        spec.pods_wanted(scalable, &requests).unwrap()
    }

    #[test]
    fn how_many_pods_are_to_come() {
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
            assert_eq!(wanted(&spec, scalable), expected, "{name}");
        }
    }

    #[test]
    fn workloads_that_can_be_followed() {
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
