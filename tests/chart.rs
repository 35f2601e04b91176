//! The charts, through Helm 3 and Helm 4 and a real API server: what they make of values, which values they refuse and how, and that a
//! release of Karpenter's becomes ours and goes back. What the controller may do with their rights is `faults/rights.rs`.

#[path = "chart/definitions.rs"]
mod definitions;
#[path = "chart/life.rs"]
mod life;
#[path = "chart/monitoring.rs"]
mod monitoring;
#[path = "chart/refusals.rs"]
mod refusals;
#[path = "chart/rendered.rs"]
mod rendered;
#[path = "chart/settings.rs"]
mod settings;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

/// What the chart cannot do without.
const LEAST: [&str; 2] = ["--set=settings.clusterName=prod", "--set=kerf.image.repository=registry.example/kerf"];

/// A file of these tests.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("chart").join(name)
}

/// A team's values for Karpenter, and what is needed beyond them.
fn existing() -> [String; 2] {
    [format!("--values={}", file("existing.yaml").display()), LEAST[1].to_owned()]
}

/// The one object of a kind, with that name.
fn object(objects: &[DynamicObject], kind: &str, name: &str) -> Result<Value> {
    let is_it = |object: &&DynamicObject| {
        object.types.as_ref().is_some_and(|types| types.kind == kind) && object.name_any() == name
    };
    let found = objects.iter().find(is_it).with_context(|| format!("no {kind} {name}"))?;
    serde_json::to_value(found).context("an object that is no JSON")
}
