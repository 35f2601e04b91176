//! LimitRanges and RuntimeClasses: what they add to new pods, and the bounds of such pods. The API server's admission reads both.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::ResourceList;
use super::meta::{nullable, slim};
use super::pod::Toleration;

/// LimitRange.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::LimitRange", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct LimitRange {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Specification of the LimitRange.
    pub spec: LimitRangeSpec,
}

/// Specification of a LimitRange.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitRangeSpec {
    /// Limits by type.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitRangeItem>,
}

/// Defaults and bounds of one type, by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitRangeItem {
    /// Type: `Container`, `Pod` or `PersistentVolumeClaim`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Limits of containers without one.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub default: ResourceList,
    /// Requests of containers without one.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub default_request: ResourceList,
    /// Least requests and limits.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub min: ResourceList,
    /// Greatest requests and limits.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub max: ResourceList,
    /// Greatest quotients of limit and request.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub max_limit_request_ratio: ResourceList,
}

impl LimitRange {
    /// Returns `namespace/name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        let ObjectMeta { namespace, name, .. } = &self.metadata;
        format!("{}/{}", namespace.as_deref().unwrap_or_default(), name.as_deref().unwrap_or_default())
    }
}

impl LimitRangeItem {
    /// Reports whether the item applies to containers.
    #[must_use]
    pub fn is_for_containers(&self) -> bool {
        self.type_ == "Container"
    }

    /// Reports whether the item applies to pods as a whole.
    #[must_use]
    pub fn is_for_pods(&self) -> bool {
        self.type_ == "Pod"
    }

    /// Returns the limits of containers without one. The API server writes them into the LimitRange: a maximum is the default of
    /// an absent default.
    #[must_use]
    pub fn default_limits(&self) -> ResourceList {
        filled(&self.default, &self.max)
    }

    /// Returns the requests of containers without one, as the API server writes them into the LimitRange: absent ones are the
    /// default limit, else the minimum.
    #[must_use]
    pub fn default_requests(&self) -> ResourceList {
        filled(&filled(&self.default_request, &self.default_limits()), &self.min)
    }
}

/// RuntimeClass.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::node::v1::RuntimeClass", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeClass {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Resources of the runtime itself; `None` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<RuntimeOverhead>,
    /// Nodes that support the runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<RuntimeScheduling>,
}

/// Resources that a runtime needs for each pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeOverhead {
    /// Amounts per pod.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "ResourceList::is_empty")]
    pub pod_fixed: ResourceList,
}

/// Constraints that a runtime adds to its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeScheduling {
    /// Labels of the nodes.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of the nodes that the pods tolerate.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

impl RuntimeClass {
    /// Returns the name of the RuntimeClass.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
}

/// Returns a list with the entries of another one where it has none.
fn filled(own: &ResourceList, others: &ResourceList) -> ResourceList {
    let mut all = others.clone();
    all.extend(own.clone());
    all
}
