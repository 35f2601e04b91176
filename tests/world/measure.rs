//! Figures of two programs side by side, as `target/peers/NAME.json`, from which docs/performance.md is written.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

/// One line of the file. Less is better.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measure {
    measure: String,
    ours: Option<f64>,
    peer: Option<f64>,
    ratio: Option<f64>,
    unit: &'static str,
}

impl Measure {
    /// A figure that the peer has no like of.
    #[must_use]
    pub fn alone(measure: &str, ours: f64, unit: &'static str) -> Self {
        Self::of_both(measure, Some(ours), None, unit)
    }

    /// A figure beside the peer's.
    #[must_use]
    pub fn beside(measure: &str, ours: f64, peer: f64, unit: &'static str) -> Self {
        Self::of_both(measure, Some(ours), Some(peer), unit)
    }

    /// The same where either may never have come to it. Nothing is so many times better than nothing, or than what was there before it was
    /// asked for.
    #[must_use]
    pub fn of_both(measure: &str, ours: Option<f64>, peer: Option<f64>, unit: &'static str) -> Self {
        let both = ours.zip(peer).filter(|(ours, peer)| *ours > 0.0 && *peer > 0.0);
        Self { measure: measure.to_owned(), ours, peer, ratio: both.map(|(ours, peer)| peer / ours), unit }
    }
}

/// Writes `target/peers/NAME.json` of the checkout, wherever cargo builds, and prints it.
///
/// # Errors
/// When it cannot be written; names it.
pub fn write(name: &str, measures: &[Measure]) -> Result<()> {
    save(&file(&format!("{name}.json")), measures)
}

/// Writes these lines in place of those of `group/` that stand in `target/peers/NAME.json`, and prints them: whoever measures for an hour
/// keeps what he has.
///
/// # Errors
/// When the file cannot be read or written; names it.
pub fn write_group(name: &str, group: &str, measures: &[Measure]) -> Result<()> {
    let file = file(&format!("{name}.json"));
    let known = std::fs::read_to_string(&file).unwrap_or_else(|_| "[]".to_owned());
    let known: Vec<Value> = serde_json::from_str(&known).with_context(|| format!("{} is no JSON", file.display()))?;
    save(&file, &renewed(known, group, measures)?)
}

/// The group's lines stay where they were; a new group comes last.
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

/// A file of `target/peers` of the checkout, wherever cargo builds.
#[must_use]
pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers").join(name)
}

#[cfg(test)]
mod tests {
    use super::{Measure, renewed};

    #[test]
    fn a_group_takes_the_place_of_its_older_lines() {
        let line = |name: &str, ours| Measure::alone(name, ours, "s");
        let group = |known, name: &str, ours| renewed(known, name, &[line(&format!("{name}/a"), ours)]).unwrap();
        let first = group(group(Vec::new(), "wide", 1.0), "drift", 2.0);
        let lines = group(first, "wide", 3.0);
        let told: Vec<_> = lines.iter().map(|line| (line["measure"].as_str(), line["ours"].as_f64())).collect();
        assert_eq!(told, [(Some("wide/a"), Some(3.0)), (Some("drift/a"), Some(2.0))]);
    }
}
