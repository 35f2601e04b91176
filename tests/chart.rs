//! The charts, through Helm 3 and Helm 4 and a real API server: rendering of values, rejected values and their errors. An
//! upgrade from a release of Karpenter to Kerf, and its rollback. `faults/rights.rs` covers the controller's use of the chart's
//! RBAC.

#[path = "chart/definitions.rs"]
mod definitions;
#[path = "chart/lifecycle.rs"]
mod lifecycle;
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

/// Values that the chart requires.
const LEAST: [&str; 2] = ["--set=settings.clusterName=prod", "--set=kerf.image.repository=registry.example/kerf"];

/// Returns the path of a file of these tests.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("chart").join(name)
}

/// Returns arguments for a user's existing values for Karpenter, and for the one value that Kerf also needs.
fn existing() -> [String; 2] {
    [format!("--values={}", file("existing.yaml").display()), LEAST[1].to_owned()]
}

/// Returns the object of this kind and name.
fn object(objects: &[DynamicObject], kind: &str, name: &str) -> Result<Value> {
    let is_it = |object: &&DynamicObject| {
        object.types.as_ref().is_some_and(|types| types.kind == kind) && object.name_any() == name
    };
    let found = objects.iter().find(is_it).with_context(|| format!("no {kind} {name}"))?;
    serde_json::to_value(found).context("an object that is no JSON")
}
