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
            "\n## Judging every node of a large cluster\n\n\
             {} nodes that {} pods fill to about a half, none pending, 700 instance types. Kerf's time is that of one\n\
             `planner::plan`, the best of three, in which every node gets its verdict; its memory is what that takes beside the\n\
             snapshot. Karpenter's is the mean of its `SimulateScheduling` for {candidates} of the nodes, each by itself; the pods of\n\
             {need_no_other} of them have room on other nodes. For all nodes it is multiplied, not measured: its pass ends with the first\n\
             command that it finds, and without one when it has looked at {TOGETHER} nodes together and for three minutes at single ones.\n",
            self.nodes, self.pods,
        )?;
        writeln!(page, "| who | a node | all nodes | nodes looked at in a pass | nodes that go | new ones | memory |")?;
        writeln!(page, "|---|---|---|---|---|---|---|")?;
        self.write_pass(page, "all may go at once", &self.all)?;
        self.write_pass(page, "a tenth may go", &self.tenth)?;
        let (each, all) = (time(self.peer.each()), time(self.peer_for_all()));
        writeln!(page, "| Karpenter | {each} | {all} (multiplied) | at most {} | | | |", self.peer_in_a_pass())
    }
}
