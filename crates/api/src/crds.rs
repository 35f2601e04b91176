//! Custom resource definitions as values, in their published form. The rules of a field stand beside the field, in `resources`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::CustomResourceExt;
use serde_json::{Value, json};

use crate::resources::capacitybuffer::CapacityBuffer;
use crate::resources::cost::commitment::Commitment;
use crate::resources::cost::spendpolicy::SpendPolicy;
use crate::resources::nodeclaim::NodeClaim;
use crate::resources::nodeclass::EC2NodeClass;
use crate::resources::nodeoverlay::NodeOverlay;
use crate::resources::nodepool::NodePool;
use crate::resources::nodeusage::NodeUsage;
use crate::resources::provisioningrequest::ProvisioningRequest;

/// Returns every custom resource definition with all of its schema rules, sorted by kind.
#[must_use]
pub fn crds() -> Vec<CustomResourceDefinition> {
    values().into_iter().map(typed).collect()
}

/// Returns every custom resource definition as JSON, sorted by kind.
#[must_use]
pub fn values() -> Vec<Value> {
    let derived = [
        CapacityBuffer::crd(),
        Commitment::crd(),
        EC2NodeClass::crd(),
        NodeClaim::crd(),
        NodeOverlay::crd(),
        NodePool::crd(),
        NodeUsage::crd(),
        ProvisioningRequest::crd(),
        SpendPolicy::crd(),
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
    let mut crd = serde_json::to_value(crd).expect("a definition is JSON");
    let versions = crd.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    let schemas = versions.into_iter().flatten().filter_map(|it| it.pointer_mut("/schema/openAPIV3Schema"));
    schemas.for_each(strip);
    crd
}

#[expect(clippy::expect_used, reason = "types and schema rules are constants; the tests call this")]
fn typed(value: Value) -> CustomResourceDefinition {
    serde_json::from_value(value).expect("definitions are OpenAPI schemas")
}

/// Removes keywords that the derive macro adds and the published schemas do not have: titles and `nullable`. With `nullable` the
/// API server would store an explicit null instead of dropping it. Bounds, which the derive macro holds as floating point, become
/// integers again.
fn strip(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    for keyword in ["nullable", "title"] {
        object.remove(keyword);
    }
    for keyword in ["minimum", "maximum"] {
        if let Some(bound) = object.get_mut(keyword)
            && let Some(whole) = bound.as_f64().filter(|bound| bound.fract() == 0.0)
        {
            *bound = json!(whole as i64);
        }
    }
    // The structural form of "integer or string". The derive macro leaves two empty alternatives instead.
    if object.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        object.insert("anyOf".to_owned(), json!([{ "type": "integer" }, { "type": "string" }]));
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.values_mut().for_each(strip);
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(keyword) {
            strip(inner);
        }
    }
}
