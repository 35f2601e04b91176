//! The bodies of merge patches that several decisions write alike: a status, and the finalizers by which we hold objects.

use kube::api::ObjectMeta;
use serde::Serialize;
use serde_json::{Value, json};

/// Writes a status, if the object is still in the version that was decided on.
#[must_use]
pub fn status(decided_on: &ObjectMeta, status: &impl Serialize) -> Value {
    json!({"metadata": {"resourceVersion": decided_on.resource_version}, "status": status})
}

/// Whether the object carries the finalizer.
#[must_use]
pub fn has_finalizer(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|name| name == finalizer)
}

/// Adds a finalizer, if the object is still in this version.
#[must_use]
pub fn with_finalizer(meta: &ObjectMeta, finalizer: &str) -> Value {
    let names = meta.finalizers.iter().flatten().map(String::as_str).chain([finalizer]);
    finalizers(meta, names.collect())
}

/// Takes a finalizer away, if the object is still in this version.
#[must_use]
pub fn without_finalizer(meta: &ObjectMeta, finalizer: &str) -> Value {
    let names = meta.finalizers.iter().flatten().map(String::as_str).filter(|name| *name != finalizer);
    finalizers(meta, names.collect())
}

fn finalizers(meta: &ObjectMeta, names: Vec<&str>) -> Value {
    json!({"metadata": {"finalizers": names, "resourceVersion": meta.resource_version}})
}
