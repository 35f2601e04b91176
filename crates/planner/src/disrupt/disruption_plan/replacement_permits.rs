//! Permission of commands to launch replacements, by NodePool. After replacements that failed, one command at a time tries again.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Launch, Millis, NodeVerdict, ReplacementState, Snapshot};

/// Permissions that are left during a plan.
pub(in crate::disrupt) struct ReplacementPermits<'a> {
    now: Millis,
    pools: BTreeMap<&'a str, &'a ReplacementState>,
    /// NodePools in which a command of this plan launches replacements.
    used: BTreeSet<String>,
}

impl<'a> ReplacementPermits<'a> {
    pub(in crate::disrupt) fn new(snapshot: &'a Snapshot) -> Self {
        let pools = snapshot.pools.iter().map(|pool| (pool.name.as_str(), &pool.replacements)).collect();
        Self { now: snapshot.now, pools, used: BTreeSet::new() }
    }

    /// Returns the verdict that forbids a command with these launches, if any.
    pub(in crate::disrupt) fn refusal(&self, launches: &[Launch]) -> Option<NodeVerdict> {
        launches.iter().find_map(|launch| self.refusal_in(&launch.pool))
    }

    fn refusal_in(&self, pool: &str) -> Option<NodeVerdict> {
        let name = pool.to_owned();
        match self.pools.get(pool)? {
            ReplacementState::Allowed => None,
            ReplacementState::One if !self.used.contains(pool) => None,
            ReplacementState::One => Some(NodeVerdict::AwaitsReplacement { pool: name, claim: None }),
            ReplacementState::Awaiting { claim } => {
                Some(NodeVerdict::AwaitsReplacement { pool: name, claim: Some(claim.clone()) })
            }
            ReplacementState::Paused { failures, until } => {
                let remaining = until.0.saturating_sub(self.now.0);
                Some(NodeVerdict::ReplacementsFail { pool: name, failures: *failures, remaining })
            }
        }
    }

    /// Records the launches of a command.
    pub(in crate::disrupt) fn spend(&mut self, launches: &[Launch]) {
        self.used.extend(launches.iter().map(|launch| launch.pool.clone()));
    }
}
