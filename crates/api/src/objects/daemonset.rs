//! DaemonSets, with the fields that Kerf uses: the overhead of every node.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::meta::slim;
use super::selector::LabelSelector;
use super::template::PodTemplateSpec;

/// DaemonSet.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::apps::v1::DaemonSet", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSet {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification of the DaemonSet.
    pub spec: DaemonSetSpec,
    /// Observed state of the DaemonSet.
    pub status: DaemonSetStatus,
}

/// Specification of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    /// Selector of its pods.
    pub selector: LabelSelector,
    /// Template of its pods.
    pub template: PodTemplateSpec,
}

/// Observed state of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    /// Number of nodes that should run one of its pods.
    pub desired_number_scheduled: i32,
    /// Number of nodes that run one of its pods, ready.
    pub number_ready: i32,
}
