//! Results of other programs, read from `target/peers`. Other programs measure them because this one must not need a cluster.

use std::fmt;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

/// One line of such a file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Row {
    measure: String,
    ours: Option<f64>,
    peer: Option<f64>,
    ratio: Option<f64>,
    unit: String,
}

/// Reads a file of the folder; returns an empty list without any measurement.
///
/// # Errors
/// Returns an error if the file exists but is invalid.
pub fn read(folder: &Path, file: &str) -> anyhow::Result<Vec<Row>> {
    let file = folder.join(file);
    let Ok(text) = std::fs::read(&file) else {
        return Ok(Vec::new());
    };
    serde_json::from_slice(&text).with_context(|| format!("cannot parse {}", file.display()))
}

/// Returns the scenarios of the rows, which are the first part of their names, in their order.
pub fn scenarios(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = rows.iter().filter_map(|row| Some(row.measure.split_once('/')?.0)).collect();
    names.dedup();
    names
}

/// Writes the rows as a table with this peer.
pub fn table(page: &mut fmt::Formatter<'_>, peer: &str, rows: &[Row]) -> fmt::Result {
    writeln!(page, "| measure | Kerf | {peer} | times better | unit |\n|---|---|---|---|---|")?;
    let figure = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"));
    for row in rows {
        let ratio = row.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.1}"));
        writeln!(page, "| {} | {} | {} | {ratio} | {} |", row.measure, figure(row.ours), figure(row.peer), row.unit)?;
    }
    Ok(())
}
