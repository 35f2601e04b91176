//! Applying manifests of the chart that need no values, as Helm would.

use std::path::Path;

use anyhow::{Context, Result};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt};

/// Server-side applies every document of a file of `controller/chart/templates`.
pub(super) async fn apply(client: &Client, file: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../controller/chart/templates").join(file);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    for document in text.split("\n---\n") {
        let object: DynamicObject = serde_saphyr::from_str(document).with_context(|| path.display().to_string())?;
        let kind = object.types.as_ref().context("a document without kind")?;
        let resource = ApiResource::from_gvk(&GroupVersionKind::try_from(kind)?);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let (name, params) = (object.name_any(), PatchParams::apply("kerf-tests").force());
        let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
        applied.with_context(|| format!("the API server refuses the {} {name}", kind.kind))?;
    }
    Ok(())
}
