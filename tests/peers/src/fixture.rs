//! Conversion of a fixture folder into the planner's input, in the same way as `kerf plan` does it.

use std::io;
use std::path::Path;

use anyhow::{Context, anyhow};
use cli::catalogue::CatalogueOptions;
use cli::plan::{Conditions, Gate, Gates, PlanInput};
use jiff::Timestamp;
use planner::Snapshot;

/// Moment after the creation of every object of the fixtures.
const NOW: &str = "2026-11-01T06:00:00Z";

/// Reads `objects.json` and `catalogue.json` of a folder.
///
/// # Errors
/// Returns an error if a file cannot be read, or if any part of it cannot be converted. A comparison on half of the input would
/// be worthless.
pub fn read(folder: &Path) -> anyhow::Result<Snapshot> {
    let manifests = cli::input::read(&[folder.join("objects.json")], &mut io::empty())?;
    let catalogue = folder.join("catalogue.json");
    let conditions = conditions(CatalogueOptions { file: Some(catalogue), ..CatalogueOptions::default() })?;
    let cluster = PlanInput::new(manifests, &conditions).with_context(|| folder.display().to_string())?;
    let built = cluster.snapshot(&conditions);
    if let Some(problem) = built.problems.first() {
        return Err(anyhow!("{}: {problem}", folder.display()));
    }
    if let Some(ignored) = built.ignored.first() {
        return Err(anyhow!("{}: pod {} is left out: {}", folder.display(), ignored.pod, ignored.reason));
    }
    Ok(built.snapshot)
}

fn conditions(catalogue: CatalogueOptions) -> anyhow::Result<Conditions> {
    let gates = Gates { overlays: Gate::Open, static_pools: Gate::Open, buffers: Gate::Open, ..Gates::default() };
    Ok(Conditions { catalogue, gates, ..Conditions::at(NOW.parse::<Timestamp>()?) })
}
