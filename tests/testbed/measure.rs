//! Measured values of two programs in comparison, as `target/peers/NAME.json`, from which docs/performance.md is written.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

/// Line of the file. Less is better.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    measure: String,
    ours: Option<f64>,
    peer: Option<f64>,
    ratio: Option<f64>,
    unit: &'static str,
}

impl Measure {
    /// Creates a line without a value of the peer.
    #[must_use]
    pub fn alone(measure: &str, ours: f64, unit: &'static str) -> Self {
        Self::of_both(measure, Some(ours), None, unit)
    }

    /// Creates a line with the values of both.
    #[must_use]
    pub fn beside(measure: &str, ours: f64, peer: f64, unit: &'static str) -> Self {
        Self::of_both(measure, Some(ours), Some(peer), unit)
    }

    /// Creates a line in which both values are optional. The ratio is left out if a value is missing, zero or negative: a
    /// negative time means that the state was reached before the request.
    #[must_use]
    pub fn of_both(measure: &str, ours: Option<f64>, peer: Option<f64>, unit: &'static str) -> Self {
        let both = ours.zip(peer).filter(|(ours, peer)| *ours > 0.0 && *peer > 0.0);
        Self { measure: measure.to_owned(), ours, peer, ratio: both.map(|(ours, peer)| peer / ours), unit }
    }
}

/// Writes `target/peers/NAME.json` of the checkout, for any target directory of cargo, and prints it.
///
/// # Errors
/// Returns an error with the file's name if it cannot be written.
pub fn write(name: &str, measures: &[Measure]) -> Result<()> {
    save(&file(&format!("{name}.json")), measures)
}

/// Replaces the lines of `group/` in `target/peers/NAME.json` by these, and prints them. A long series of measurements keeps
/// its results if it is interrupted.
///
/// # Errors
/// Returns an error with the file's name if it cannot be read or written.
pub fn write_group(name: &str, group: &str, measures: &[Measure]) -> Result<()> {
    let file = file(&format!("{name}.json"));
    let known = std::fs::read_to_string(&file).unwrap_or_else(|_| "[]".to_owned());
    let known: Vec<Value> = serde_json::from_str(&known).with_context(|| format!("{} is no JSON", file.display()))?;
    save(&file, &renewed(known, group, measures)?)
}

/// Replaces the lines of the group at their position; a new group is appended.
fn renewed(known: Vec<Value>, group: &str, measures: &[Measure]) -> Result<Vec<Value>> {
    let is_of =
        |line: &Value| line["measure"].as_str().and_then(|it| it.split_once('/')).is_some_and(|it| it.0 == group);
    let place = known.iter().position(is_of).unwrap_or(known.len());
    let mut lines: Vec<Value> = known.into_iter().filter(|line| !is_of(line)).collect();
    let new: Vec<Value> = measures.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
    lines.splice(place..place, new);
    Ok(lines)
}

fn save<T: Serialize>(file: &Path, lines: &[T]) -> Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let text = serde_json::to_string_pretty(lines)? + "\n";
    std::fs::write(file, &text).with_context(|| format!("cannot write {}", file.display()))?;
    print!("{text}");
    Ok(())
}

/// Returns a file of `target/peers` of the checkout, for any target directory of cargo.
#[must_use]
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers").join(name)
}

#[cfg(test)]
mod tests {
    use super::{Measure, renewed};

    #[test]
    fn renewed_replaces_older_lines_of_the_group() {
        let line = |name: &str, ours| Measure::alone(name, ours, "s");
        let group = |known, name: &str, ours| renewed(known, name, &[line(&format!("{name}/a"), ours)]).unwrap();
        let first = group(group(Vec::new(), "wide", 1.0), "drift", 2.0);
        let lines = group(first, "wide", 3.0);
        let reported: Vec<_> = lines.iter().map(|line| (line["measure"].as_str(), line["ours"].as_f64())).collect();
        assert_eq!(reported, [(Some("wide/a"), Some(3.0)), (Some("drift/a"), Some(2.0))]);
    }
}
