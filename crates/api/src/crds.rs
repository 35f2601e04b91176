//! Custom resource definitions as values, in their published form.

mod schema;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;
use serde_json::Value;

use crate::resources::capacitybuffer::CapacityBuffer;
use crate::resources::nodeclaim::NodeClaim;
use crate::resources::nodeclass::EC2NodeClass;
use crate::resources::nodeoverlay::NodeOverlay;
use crate::resources::nodepool::NodePool;
use crate::resources::nodeusage::NodeUsage;
use schema::{complete, kind};

/// Returns every custom resource definition with all of its schema rules, sorted by file name.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    values().into_iter().map(typed).collect()
}

/// Returns every custom resource definition as JSON, sorted by file name.
#[must_use]
pub fn values() -> Vec<Value> {
    let derived = [
        CapacityBuffer::crd(),
        EC2NodeClass::crd(),
        NodeClaim::crd(),
        NodeOverlay::crd(),
        NodePool::crd(),
        NodeUsage::crd(),
    ];
    derived.iter().map(published).collect()
}

/// Returns the file name of a published definition: `<group>_<plural>.yaml`.
#[must_use]
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

#[expect(clippy::expect_used, reason = "types and schema rules are constants; the tests call this")]
fn published(crd: &CustomResourceDefinition) -> Value {
    let name = crd.metadata.name.as_deref().unwrap_or_default();
    let derived = serde_json::to_value(crd).expect("a definition is JSON");
    complete(derived, &kind(name)).expect("schema rules name fields that exist")
}

#[expect(clippy::expect_used, reason = "types and schema rules are constants; the tests call this")]
fn typed(value: Value) -> CustomResourceDefinition {
    serde_json::from_value(value).expect("definitions are OpenAPI schemas")
}
