//! Plan with a part of its commands: if all commands together break a rule, pending pods do not wait longer for that.

use super::{NodeVerdict, Plan, Purpose};
use crate::MicroDollars;

impl Plan {
    /// Returns the plan with the first `count` of its commands, without resizes and without launches for the omitted commands.
    /// Their nodes wait for the next plan, with the `finding` of the validation in their verdicts.
    pub fn with_moves(mut self, count: usize, finding: &str) -> Self {
        for dropped in self.moves.drain(count.min(self.moves.len())..) {
            for (name, verdict) in &mut self.report.nodes {
                if dropped.nodes.iter().any(|leaver| leaver.node == *name) {
                    *verdict = NodeVerdict::LeftOut { reason: dropped.reason, finding: finding.to_owned() };
                }
            }
        }
        // Launches have the order of their commands: those behind the last used one belong to no command.
        let used = self.moves.iter().flat_map(|kept| kept.replacements.iter().map(|launch| launch + 1)).max();
        let for_pods = self.launches.iter().take_while(|launch| launch.purpose != Purpose::Replacement).count();
        self.launches.truncate(used.unwrap_or(for_pods).max(for_pods));
        self.resizes.clear();
        self.saved_by_usage = MicroDollars(0);
        self
    }
}
