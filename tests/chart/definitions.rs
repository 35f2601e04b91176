//! The chart of CRDs: those of the API, all of them, kept when the release goes.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use kube::ResourceExt;
use serde_json::Value;
use world::helm::{Helm, Version};

/// Definitions by name with their annotations taken off, which are given beside.
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
fn they_are_those_of_the_api_and_nothing_else() -> Result<()> {
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
fn annotations_are_added_and_do_not_make_them_go() -> Result<()> {
    let more = ["--set=additionalAnnotations.team=platform", r"--set=additionalAnnotations.helm\.sh/resource-policy=x"];
    for version in Version::ALL {
        for (name, (_, annotations)) in rendered(version, &more)? {
            ensure!(annotations["team"] == "platform", "{name}: {annotations}");
            ensure!(annotations["helm.sh/resource-policy"] == "keep", "{name}: {annotations}");
        }
    }
    Ok(())
}

/// In the checkout they are a link to the folder of the other chart; an archive has no such neighbour.
#[test]
fn an_archive_holds_them_all() -> Result<()> {
    for version in Version::ALL {
        let folder = tempfile::tempdir().context("no room for an archive")?;
        let (chart, to) = (Helm::chart("chart-crd").display().to_string(), folder.path().display().to_string());
        Helm::find(version)?.run(&["package", &chart, "--destination", &to])?;
        let archive = folder.path().join(format!("kerf-crd-{}.tgz", env!("CARGO_PKG_VERSION")));
        ensure!(rendered_from(&archive, version, &[])? == rendered(version, &[])?, "{version:?} packs something else");
    }
    Ok(())
}
