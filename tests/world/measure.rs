//! Figures of two programs side by side, as `target/peers/NAME.json`, from which docs/performance.md is written.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;

/// One line of the file. Less is better.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    measure: String,
    ours: f64,
    peer: Option<f64>,
    ratio: Option<f64>,
    unit: &'static str,
}

impl Measure {
    /// A figure that the peer has no like of.
    #[must_use]
    pub fn alone(measure: &str, ours: f64, unit: &'static str) -> Self {
        Self { measure: measure.to_owned(), ours, peer: None, ratio: None, unit }
    }

    /// A figure beside the peer's. Nothing is so many times better than nothing, or than what was there before it was asked for.
    #[must_use]
    pub fn beside(measure: &str, ours: f64, peer: f64, unit: &'static str) -> Self {
        let ratio = (ours > 0.0 && peer > 0.0).then(|| peer / ours);
        Self { measure: measure.to_owned(), ours, peer: Some(peer), ratio, unit }
    }
}

/// Writes `target/peers/NAME.json` of the checkout, wherever cargo builds, and prints it.
///
/// # Errors
/// When it cannot be written; names it.
pub fn write(name: &str, measures: &[Measure]) -> Result<()> {
    let folder = folder();
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = folder.join(format!("{name}.json"));
    let text = serde_json::to_string_pretty(measures)? + "\n";
    std::fs::write(&file, &text).with_context(|| format!("cannot write {}", file.display()))?;
    print!("{text}");
    Ok(())
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers")
}
