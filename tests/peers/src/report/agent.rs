//! The agent's figures, which another program measures: it needs a cluster, this one must not.

use std::fmt;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

/// One line of `agent.json`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Row {
    measure: String,
    ours: f64,
    peer: Option<f64>,
    ratio: Option<f64>,
    unit: String,
}

/// What was measured of the agent last; empty when nothing was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agent(Vec<Row>);

impl Agent {
    /// Reads `agent.json` of the folder.
    ///
    /// # Errors
    /// When the file is there but makes no sense.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        let file = folder.join("agent.json");
        let Ok(text) = std::fs::read(&file) else {
            return Ok(Self::default());
        };
        serde_json::from_slice(&text).map(Self).with_context(|| format!("{} makes no sense", file.display()))
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, page: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(page, "\n## The agent, beside AWS's Node Termination Handler\n")?;
        writeln!(
            page,
            "Ten machines each, against the same real API server and the same metadata, one program after the other;"
        )?;
        writeln!(
            page,
            "idle figures are means over 30 s, delays are over 100 notices. `tests/numbers` measures them. A node of 110 pods"
        )?;
        writeln!(
            page,
            "(ours with their cgroups) gives `cpu-110-pods-percent` and, when it is emptied, the most memory as `rss-drain-mib`."
        )?;
        writeln!(
            page,
            "`budget-30-pods-*`: 30 pods of one budget that lets one be away, and a notice of 120 s: seconds until the node was"
        )?;
        writeln!(page, "empty, pods left then, and how many more were away at once than the budget lets be.\n")?;
        writeln!(page, "| measure | Kerf | Node Termination Handler | times better | unit |\n|---|---|---|---|---|")?;
        let figure = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"));
        for row in &self.0 {
            let ratio = row.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.1}"));
            writeln!(page, "| {} | {:.3} | {} | {ratio} | {} |", row.measure, row.ours, figure(row.peer), row.unit)?;
        }
        Ok(())
    }
}
