//! Server-side apply of objects, as with `kubectl apply`.

use anyhow::{Context, Result};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::{Client, ResourceExt};
use serde::Deserialize as _;
use serde_json::Value;

use crate::environment::examples;

/// Applies a manifest of the examples, such as `getting-started/nodepool.yaml`.
///
/// # Errors
/// Returns an error if the file cannot be read, or if the API server rejects an object.
pub async fn apply_example(client: &Client, file: &str) -> Result<()> {
    let path = examples().join(file);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    for document in text.split("\n---\n") {
        let value: Value = serde_saphyr::from_str(document).with_context(|| format!("{file} is not YAML"))?;
        apply(client, value).await.with_context(|| format!("cannot apply {file}"))?;
    }
    Ok(())
}

/// Applies one object of any kind that the API server knows.
///
/// # Errors
/// Returns an error if the value is no object, or if the API server rejects it; the error contains kind and name.
pub async fn apply(client: &Client, value: Value) -> Result<()> {
    let object = DynamicObject::deserialize(value).context("this is no object")?;
    let types = object.types.as_ref().context("no apiVersion and kind")?;
    let (resource, capabilities) = pinned_kind(client, &GroupVersionKind::try_from(types)?).await?;
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Namespaced => {
            let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
            Api::namespaced_with(client.clone(), namespace, &resource)
        }
        Scope::Cluster => Api::all_with(client.clone(), &resource),
    };
    let name = object.name_any();
    let applied = api.patch(&name, &PatchParams::apply("kerf-demo").force(), &Patch::Apply(&object)).await;
    applied.map(drop).with_context(|| format!("the API server refuses the {} {name}", types.kind))
}
