//! One pass over a large cluster, as lines of `disruption.json` and as a table of docs/performance.md.

use std::fmt;

use super::{Measure, mebibytes, time};
use crate::consolidation::{Consolidation, Pass, TOGETHER};
use crate::karpenter::Simulated;

impl Consolidation {
    /// Returns the lines of `disruption.json`. Karpenter's value is the measured one, for a single node.
    #[must_use]
    pub fn measures(&self) -> Vec<Measure> {
        let name = format!("consolidation-{}", self.nodes);
        let (ours, peer) = (self.ours_each().as_secs_f64(), self.peer.each().as_secs_f64());
        vec![
            Measure::alone(name.clone(), self.all.took.as_secs_f64(), "s"),
            Measure::alone(format!("{name}/budget-10%"), self.tenth.took.as_secs_f64(), "s"),
            Measure::beside(format!("{name}/node"), ours, peer, "s"),
            Measure::alone(format!("{name}/memory"), mebibytes(self.all.bytes), "MiB"),
        ]
    }

    fn write_pass(&self, page: &mut fmt::Formatter<'_>, budgets: &str, pass: &Pass) -> fmt::Result {
        writeln!(
            page,
            "| Kerf, {budgets} | {} | {} | {} | {} | {} | {:.0} MiB |",
            time(pass.took / u32::try_from(self.nodes).unwrap_or(u32::MAX).max(1)),
            time(pass.took),
            self.nodes,
            pass.going,
            pass.launched,
            mebibytes(pass.bytes),
        )
    }
}

impl fmt::Display for Consolidation {
    fn fmt(&self, page: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Simulated { candidates, need_no_other, .. } = self.peer;
        writeln!(
            page,
            "\n## Consolidation of a large cluster\n\n\
             Input: {} nodes, {} pods that request about half of the capacity, no pending pod, 700 instance types.\n\n\
             - Kerf: one `planner::plan`, best of three runs; it evaluates every node. Its memory excludes the snapshot.\n\
             - Karpenter: the mean of `SimulateScheduling` for {candidates} single nodes. The pods of {need_no_other} of them fit on other nodes.\n\
             - Karpenter for all nodes: multiplied, not measured. One pass ends with the first command. Without a command it ends\n  \
             after {TOGETHER} nodes together and three minutes of single nodes.\n",
            self.nodes, self.pods,
        )?;
        writeln!(
            page,
            "| planner | per node | all nodes | candidates per pass | nodes removed | nodes launched | memory |"
        )?;
        writeln!(page, "|---|---|---|---|---|---|---|")?;
        self.write_pass(page, "budget 100 %", &self.all)?;
        self.write_pass(page, "budget 10 %", &self.tenth)?;
        let (each, all) = (time(self.peer.each()), time(self.peer_for_all()));
        writeln!(page, "| Karpenter | {each} | {all} (multiplied) | at most {} | | | |", self.peer_in_a_pass())
    }
}
