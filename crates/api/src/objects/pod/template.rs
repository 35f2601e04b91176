//! Pod templates: the template in every workload, and the template as an object of its own.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::PodSpec;
use crate::objects::meta::slim;

/// PodTemplate, which other objects such as a CapacityBuffer refer to.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::PodTemplate", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct PodTemplate {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Template of pods.
    pub template: PodTemplateSpec,
}

/// Template of pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodTemplateSpec {
    /// Labels and annotations of the pods.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification of the pods.
    pub spec: PodSpec,
}
