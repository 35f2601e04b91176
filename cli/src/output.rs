//! Output for people: money, colours, counts and line breaks.

pub(crate) mod money;
mod progress;
mod text;

pub(crate) use progress::Progress;
pub(crate) use text::{Paint, age, counted, fit, wrap};

use serde::Serialize;

use crate::failure::Failure;

/// Returns a report as JSON.
pub(crate) fn json(report: &impl Serialize) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(report).map_err(Failure::internal)? + "\n")
}

/// Returns a report as YAML.
pub(crate) fn yaml(report: &impl Serialize) -> Result<String, Failure> {
    serde_saphyr::to_string(report).map_err(|error| Failure::fault(error.to_string()))
}
