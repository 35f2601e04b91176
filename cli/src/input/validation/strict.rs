//! Unknown fields of Kubernetes' own kinds. The slim object types skip fields that a plan does not use, so a misspelt
//! `nodeSelector` would be lost without a warning. Here the full object is parsed, and fields that do not survive are reported.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{LimitRange, PersistentVolume, PersistentVolumeClaim, Pod, PodTemplate};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::input::kinds::Kind;
use crate::input::raw::Raw;

/// Returns the paths of unknown fields. An object with a uid comes from an API server and has none.
pub(super) fn unknown_fields(raw: &Raw) -> Vec<String> {
    if !raw.value["metadata"]["uid"].is_null() {
        return Vec::new();
    }
    let written = with_quantities(&raw.value);
    let known = match raw.kind {
        Kind::Pod => known::<Pod>(&written),
        Kind::PodTemplate => known::<PodTemplate>(&written),
        Kind::Deployment => known::<Deployment>(&written),
        Kind::ReplicaSet => known::<ReplicaSet>(&written),
        Kind::StatefulSet => known::<StatefulSet>(&written),
        Kind::DaemonSet => known::<DaemonSet>(&written),
        Kind::Job => known::<Job>(&written),
        Kind::PodDisruptionBudget => known::<PodDisruptionBudget>(&written),
        Kind::PersistentVolumeClaim => known::<PersistentVolumeClaim>(&written),
        Kind::PersistentVolume => known::<PersistentVolume>(&written),
        Kind::LimitRange => known::<LimitRange>(&written),
        Kind::RuntimeClass => known::<RuntimeClass>(&written),
        Kind::PriorityClass => known::<PriorityClass>(&written),
        Kind::StorageClass => known::<StorageClass>(&written),
        _ => None,
    };
    let mut lost = Vec::new();
    if let Some(known) = known {
        compare(&written, &known, "", &mut lost);
    }
    lost
}

/// Returns the object after a parse and a second serialization; `None` if it cannot be parsed, which is reported elsewhere.
fn known<T: DeserializeOwned + Serialize>(written: &Value) -> Option<Value> {
    serde_json::to_value(T::deserialize(written).ok()?).ok()
}

/// Returns the object with amounts as strings. Users write `cpu: 1`, which the API server accepts but these types do not.
fn with_quantities(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, inner)| (name.clone(), with_texts(name, inner))).collect(),
        Value::Array(items) => items.iter().map(with_quantities).collect(),
        other => other.clone(),
    }
}

fn with_texts(name: &str, value: &Value) -> Value {
    const AMOUNTS: [&str; 10] = [
        "requests",
        "limits",
        "capacity",
        "overhead",
        "podFixed",
        "default",
        "defaultRequest",
        "min",
        "max",
        "maxLimitRequestRatio",
    ];
    let text = |name: &String, amount: &Value| {
        if amount.is_number() { Value::String(amount.to_string()) } else { with_texts(name, amount) }
    };
    match value {
        Value::Object(amounts) if AMOUNTS.contains(&name) => {
            amounts.iter().map(|(resource, amount)| (resource.clone(), text(resource, amount))).collect()
        }
        other => with_quantities(other),
    }
}

fn compare(written: &Value, known: &Value, path: &str, lost: &mut Vec<String>) {
    match (written, known) {
        (Value::Object(written), Value::Object(known)) => {
            for (name, value) in written.iter().filter(|(_, value)| is_set(value)) {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                match known.get(name) {
                    Some(known) => compare(value, known, &path, lost),
                    None => lost.push(path),
                }
            }
        }
        (Value::Array(written), Value::Array(known)) => {
            for (index, (value, known)) in written.iter().zip(known).enumerate() {
                compare(value, known, &format!("{path}[{index}]"), lost);
            }
        }
        _ => {}
    }
}

/// Reports whether a value is not empty. Empty values may be omitted when an object is serialized again.
fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}
