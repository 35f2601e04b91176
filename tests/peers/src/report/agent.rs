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
        for line in [
            "`tests/agent_benchmark` measures one program after the other, with ten nodes each, the same real API server and the same",
            "instance metadata.\n",
            "- Idle figures are means over 30 s. Delays are over 100 notices.",
            "- `cpu-110-pods-percent`: an idle node with 110 pods, for Kerf with their cgroups. `rss-drain-mib`: peak memory during the",
            "  drain of that node.",
            "- `budget-30-pods-*`: 30 pods, one PodDisruptionBudget with `maxUnavailable: 1`, and a notice of 120 s. Seconds until the",
            "  node is empty, pods left on it at the end, and unavailable pods above the budget.\n",
        ] {
            writeln!(page, "{line}")?;
        }
        rows::table(page, "Node Termination Handler", &self.0)
    }
}
