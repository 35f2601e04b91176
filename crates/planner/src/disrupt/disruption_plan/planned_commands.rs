//! Result of the collection: commands, launches and the verdict of every node.

use std::collections::BTreeMap;

use crate::disrupt::simulation::Position;
use crate::provision::KnownDomains;
use crate::{Launch, NodeVerdict, PlannedCommand};

/// Finding when no command that needs places is made.
const UNSETTLED: &str =
    "where their pods would go opens a domain that changes where others may, found anew at each attempt";

/// Result of all commands.
pub(in crate::disrupt) struct PlannedCommands {
    pub(in crate::disrupt) moves: Vec<PlannedCommand>,
    pub(in crate::disrupt) launches: Vec<Launch>,
    pub(in crate::disrupt) verdicts: BTreeMap<Position, NodeVerdict>,
    /// Facts that the next attempt must know from its beginning, if one is needed.
    pub(in crate::disrupt) surprises: KnownDomains,
}

impl PlannedCommands {
    /// Returns the result without commands that need places: the places of their pods would conflict.
    pub(in crate::disrupt) fn forgone(self) -> Self {
        let verdicts = self.verdicts.into_iter().map(|(position, verdict)| match verdict {
            NodeVerdict::Remove(reason) => (position, NodeVerdict::LeftOut { reason, finding: UNSETTLED.to_owned() }),
            verdict => (position, verdict),
        });
        Self { moves: Vec::new(), launches: Vec::new(), verdicts: verdicts.collect(), surprises: self.surprises }
    }
}
