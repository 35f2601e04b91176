//! What a drain says about itself: figures for conditions and logs, and one outcome a pod for the final report.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::pod::Skip;

/// How far a drain has come, in pods. `waiting`, `blocked` and `leaving` are still on the node and have to go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Nothing asked yet, or a first answer outstanding, or held by do-not-disrupt or an earlier group.
    pub waiting: usize,
    /// The last request was refused.
    pub blocked: usize,
    /// Being deleted, but not gone yet.
    pub leaving: usize,
    /// Evictions that the API accepted, over the whole drain.
    pub evicted: usize,
    /// Deletions that the API accepted, over the whole drain.
    pub forced: usize,
    /// On the node, left alone.
    pub skipped: usize,
}

impl Progress {
    /// Pods that are still to go.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.waiting + self.blocked + self.leaving
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} evicted, {} forced, {} leaving, {} waiting, {} blocked, {} left alone",
            self.evicted, self.forced, self.leaving, self.waiting, self.blocked, self.skipped
        )
    }
}

/// How one pod ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Outcome {
    /// Its eviction was accepted: its budget was honoured.
    Evicted,
    /// It was deleted at the switch, or its deletion was shortened, because the deadline came.
    Forced,
    /// It was gone before anything was asked: it ended, or somebody else deleted it.
    Gone,
    /// It stayed.
    Left(Skip),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicted => f.write_str("evicted"),
            Self::Forced => f.write_str("forced"),
            Self::Gone => f.write_str("gone by itself"),
            Self::Left(why) => write!(f, "left ({why})"),
        }
    }
}
