//! Figures that other programs measure, because they need a cluster and this one must not: read from `target/peers`.

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

/// Reads a file of the folder; empty where nothing was measured.
///
/// # Errors
/// When the file is there but makes no sense.
pub fn read(folder: &Path, file: &str) -> anyhow::Result<Vec<Row>> {
    let file = folder.join(file);
    let Ok(text) = std::fs::read(&file) else {
        return Ok(Vec::new());
    };
    serde_json::from_slice(&text).with_context(|| format!("{} makes no sense", file.display()))
}

/// The rows as a table beside this peer.
pub fn table(page: &mut fmt::Formatter<'_>, peer: &str, rows: &[Row]) -> fmt::Result {
    writeln!(page, "| measure | Kerf | {peer} | times better | unit |\n|---|---|---|---|---|")?;
    let figure = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"));
    for row in rows {
        let ratio = row.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.1}"));
        writeln!(page, "| {} | {} | {} | {ratio} | {} |", row.measure, figure(row.ours), figure(row.peer), row.unit)?;
    }
    Ok(())
}
