//! The chart of CRDs: exactly those of the API, kept after the release is uninstalled.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use serde_json::Value;
use testbed::helm::{Helm, Version};

/// Returns definitions by name, each as a pair of the definition without annotations, and the annotations.
fn rendered(version: Version, arguments: &[&str]) -> Result<BTreeMap<String, (Value, Value)>> {
    rendered_from(&Helm::chart("chart-crd"), version, arguments)
}

fn rendered_from(chart: &Path, version: Version, arguments: &[&str]) -> Result<BTreeMap<String, (Value, Value)>> {
    let objects = Helm::find(version)?.render(chart, arguments)?;
    let split = |object: &kube::api::DynamicObject| -> Result<_> {
        let mut value = serde_json::to_value(object)?;
        let metadata = value["metadata"].as_object_mut();
        let annotations = metadata.and_then(|metadata| metadata.remove("annotations")).unwrap_or_default();
        Ok((object.name_any(), (value, annotations)))
    };
    objects.iter().map(split).collect()
}

#[test]
fn crd_chart_renders_exactly_the_crds_of_the_api() -> Result<()> {
    for version in Version::ALL {
        let found = rendered(version, &[])?;
        let ours = api::crds::values();
        ensure!(found.len() == ours.len(), "{version:?} renders {:?}", found.keys());
        for definition in ours {
            let name = definition["metadata"]["name"].as_str().unwrap_or_default();
            let (same, annotations) = &found[name];
            ensure!(*same == definition, "{version:?}: {name} is not that of the API");
            ensure!(annotations["helm.sh/resource-policy"] == "keep", "{name} goes with the release: {annotations}");
        }
    }
    Ok(())
}

#[test]
fn crd_chart_adds_annotations_and_keeps_resource_policy() -> Result<()> {
    let more = ["--set=additionalAnnotations.team=platform", r"--set=additionalAnnotations.helm\.sh/resource-policy=x"];
    for version in Version::ALL {
        for (name, (_, annotations)) in rendered(version, &more)? {
            ensure!(annotations["team"] == "platform", "{name}: {annotations}");
            ensure!(annotations["helm.sh/resource-policy"] == "keep", "{name}: {annotations}");
        }
    }
    Ok(())
}

/// In the checkout the CRDs are a link to the folder of the other chart, which an archive does not have.
#[test]
fn crd_chart_archive_contains_all_crds() -> Result<()> {
    for version in Version::ALL {
        let folder = tempfile::tempdir().context("no room for an archive")?;
        let (chart, to) = (Helm::chart("chart-crd").display().to_string(), folder.path().display().to_string());
        Helm::find(version)?.run(&["package", &chart, "--destination", &to])?;
        let archive = folder.path().join(format!("kerf-crd-{}.tgz", env!("CARGO_PKG_VERSION")));
        ensure!(rendered_from(&archive, version, &[])? == rendered(version, &[])?, "{version:?} packs something else");
    }
    Ok(())
}
