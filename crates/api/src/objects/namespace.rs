//! Namespaces, with the fields that Kerf uses: the labels by which pods select each other across namespaces.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_derive::Resource;
use serde::{Deserialize, Serialize};

use super::Pod;
use super::meta::slim;
use crate::names::label;

/// Namespace.
#[derive(Resource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[resource(inherit = "k8s_openapi::api::core::v1::Namespace", crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase", default)]
pub struct Namespace {
    /// Metadata without managed fields.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
}

impl Namespace {
    /// Returns the name of the Namespace, empty only in objects that did not come from an API server.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the labels, including the one that the API server adds to every Namespace: its name.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.metadata.labels.clone().unwrap_or_default();
        labels.insert(label::NAMESPACE_NAME.to_owned(), self.name().to_owned());
        labels
    }
}

/// Returns the label to which the cost of a pod counts: its own, else that of its namespace.
#[must_use]
pub fn cost_label<'a>(pod: &'a Pod, namespace: Option<&'a Namespace>, key: &str) -> Option<&'a str> {
    let value = |meta: &'a ObjectMeta| meta.labels.as_ref()?.get(key).map(String::as_str);
    value(&pod.metadata).or_else(|| value(&namespace?.metadata))
}
