//! A plan with some of its moves only: where they break a rule together, pods that wait do not wait longer for that.

use super::{NodeVerdict, Plan, Purpose};
use crate::MicroDollars;

impl Plan {
    /// The same with the first `count` of its moves, without resizes and without launches for the moves that are left out. Their
    /// nodes wait for the next plan, and are told which `finding` of the checker that is for.
    pub fn with_moves(mut self, count: usize, finding: &str) -> Self {
        for dropped in self.moves.drain(count.min(self.moves.len())..) {
            for (name, verdict) in &mut self.report.nodes {
                if dropped.nodes.iter().any(|leaver| leaver.node == *name) {
                    *verdict = NodeVerdict::LeftOut { reason: dropped.reason, finding: finding.to_owned() };
                }
            }
        }
        // Launches stand in the order of their moves: whatever comes behind the last one that is used is nobody's.
        let used = self.moves.iter().flat_map(|kept| kept.replacements.iter().map(|launch| launch + 1)).max();
        let for_pods = self.launches.iter().take_while(|launch| launch.purpose != Purpose::Replacement).count();
        self.launches.truncate(used.unwrap_or(for_pods).max(for_pods));
        self.resizes.clear();
        self.saved_by_usage = MicroDollars(0);
        self
    }
}
