//! What pods are made from: the template inside every workload, and the template as an object of its own.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::meta::slim;
use super::pod::PodSpec;

/// A template that others name, such as a CapacityBuffer.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::PodTemplate", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct PodTemplate {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What pods are made from.
    pub template: PodTemplateSpec,
}

/// What pods are made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTemplateSpec {
    /// Labels and annotations of the pods.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification of the pods.
    pub spec: PodSpec,
}
