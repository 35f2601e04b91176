//! Delays after attempts that failed: of launches that gave pods no place, and of replacements that were not initialized.

use std::collections::BTreeMap;

use jiff::Timestamp;
use planner::{CapacityHolder, LaunchPause};

/// Earlier attempts that failed, as far as they delay the next ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Pauses of launches by the UID of a pod.
    pub pods: BTreeMap<String, Vec<LaunchPause>>,
    /// Pauses of launches for virtual pods.
    pub holders: BTreeMap<CapacityHolder, Vec<LaunchPause>>,
    /// Times until which static NodePools launch no missing node, by NodePool.
    pub static_pools: BTreeMap<String, Timestamp>,
    /// Replacements that failed in a row, by the NodePool of the replacements.
    pub replacements: BTreeMap<String, FailedReplacements>,
}

/// Replacements of one NodePool that failed in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedReplacements {
    /// Number of attempts.
    pub failures: u32,
    /// Time of the next attempt.
    pub until: Timestamp,
}
