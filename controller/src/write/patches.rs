//! Bodies of merge patches that several decisions have in common: a status, and Kerf's finalizers.

use kube::api::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

/// Returns a patch that replaces the status, if the object still has the version of the decision.
#[must_use]
pub fn status<S: Serialize>(decided_on: &ObjectMeta, before: &S, after: &S) -> Value {
    let mut status = json!(after);
    take_away(&json!(before), &mut status);
    json!({"metadata": {"resourceVersion": decided_on.resource_version}, "status": status})
}

/// Adds a null for each field that no longer exists: in a merge patch only a null removes a field.
fn take_away(before: &Value, after: &mut Value) {
    let (Value::Object(before), Value::Object(after)) = (before, after) else { return };
    for (key, former) in before {
        match after.get_mut(key) {
            Some(present) => take_away(former, present),
            None => drop(after.insert(key.clone(), Value::Null)),
        }
    }
}

/// Reports whether the object has the finalizer.
#[must_use]
pub fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|name| name == finalizer)
}

/// Returns a patch that adds a finalizer, if the object still has this version.
#[must_use]
pub fn with_finalizer(meta: &ObjectMeta, finalizer: &str) -> Value {
    let names = meta.finalizers.iter().flatten().map(String::as_str).chain([finalizer]);
    finalizers(meta, names.collect())
}

/// Returns a patch that removes a finalizer, if the object still has this version.
#[must_use]
pub fn without_finalizer(meta: &ObjectMeta, finalizer: &str) -> Value {
    let names = meta.finalizers.iter().flatten().map(String::as_str).filter(|name| *name != finalizer);
    finalizers(meta, names.collect())
}

fn finalizers(meta: &ObjectMeta, names: Vec<&str>) -> Value {
    json!({"metadata": {"finalizers": names, "resourceVersion": meta.resource_version}})
}

#[cfg(test)]
mod tests {
    use super::{ObjectMeta, Value, json, status};

    #[test]
    fn status_removes_missing_fields_with_null() {
        let rows = [
            (
                json!({"resources": {"cpu": "2", "gpu": "1"}}),
                json!({"resources": {"cpu": "4"}}),
                json!({"resources": {"cpu": "4", "gpu": null}}),
            ),
            (
                json!({"nodes": 1, "conditions": [{"type": "Ready"}]}),
                json!({"conditions": []}),
                json!({"nodes": null, "conditions": []}),
            ),
            (Value::Null, json!({"nodes": 1}), json!({"nodes": 1})),
            (json!({"nodes": 1}), Value::Null, Value::Null),
        ];
        for (before, after, expected) in rows {
            assert_eq!(status(&ObjectMeta::default(), &before, &after)["status"], expected, "{before} -> {after}");
        }
    }
}
