//! DaemonSets, as far as Kerf reads them: the overhead that every node carries.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::meta::slim;
use super::selector::LabelSelector;
use super::template::PodTemplateSpec;

/// A DaemonSet.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::apps::v1::DaemonSet", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSet {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What the DaemonSet runs.
    pub spec: DaemonSetSpec,
    /// What has become of it.
    pub status: DaemonSetStatus,
}

/// What a DaemonSet runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    /// The pods that belong to it.
    pub selector: LabelSelector,
    /// What its pods are made from.
    pub template: PodTemplateSpec,
}

/// What has become of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    /// Nodes that should run one of its pods.
    pub desired_number_scheduled: i32,
    /// Nodes that run one of its pods, ready.
    pub number_ready: i32,
}
