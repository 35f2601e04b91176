//! A fixture folder becomes the planner's input the way `kerf plan` makes it.

use std::io;
use std::path::Path;

use anyhow::{Context, anyhow};
use cli::catalogue::CatalogueOptions;
use cli::plan_input::{Conditions, Gate, Gates, PlanInput};
use jiff::Timestamp;
use planner::Snapshot;

/// A while after every object of the fixtures was made.
const NOW: &str = "2026-11-01T06:00:00Z";

/// Reads `objects.json` and `catalogue.json` of a folder.
///
/// # Errors
/// When a file cannot be read, or something in it cannot be translated in full: a comparison over half of the input
/// would be worth nothing.
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

fn conditions(wish: CatalogueOptions) -> anyhow::Result<Conditions> {
    let gates = Gates { overlays: Gate::Open, static_pools: Gate::Open, buffers: Gate::Open, ..Gates::default() };
    Ok(Conditions { wish, gates, ..Conditions::at(NOW.parse::<Timestamp>()?) })
}
