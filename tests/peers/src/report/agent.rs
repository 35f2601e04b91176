//! Results for the agent, which `tests/agent_benchmark` measures.

use std::fmt;
use std::path::Path;

use super::rows::{self, Row};

/// Last results for the agent; empty without any measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agent(Vec<Row>);

impl Agent {
    /// Reads `agent.json` of the folder.
    ///
    /// # Errors
    /// Returns an error if the file exists but is invalid.
    pub fn read(folder: &Path) -> anyhow::Result<Self> {
        rows::read(folder, "agent.json").map(Self)
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
            "idle figures are means over 30 s, delays are over 100 notices. `tests/agent_benchmark` measures them. A node of 110 pods"
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
        rows::table(page, "Node Termination Handler", &self.0)
    }
}
