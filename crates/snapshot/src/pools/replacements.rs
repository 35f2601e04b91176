//! Replacements that are not initialized, and the permission of NodePools to launch further ones.

use std::collections::{BTreeMap, BTreeSet};

use api::status::Conditioned;
use api::{NodeClaim, condition};
use jiff::Timestamp;
use planner::ReplacementState;

use crate::{FailedReplacements, Input, millis};

/// Replacements that are not initialized yet, by their NodePool: the first one by name.
#[derive(Debug, Default)]
pub(super) struct OpenReplacements<'a> {
    /// Replacements that a command waits for.
    awaited: BTreeMap<&'a str, &'a str>,
    /// Replacements whose command was rolled back.
    abandoned: BTreeMap<&'a str, &'a str>,
}

impl<'a> OpenReplacements<'a> {
    pub(super) fn new(input: &'a Input<'_>) -> Self {
        let claims = || input.claims.iter().map(|claim| claim.as_ref());
        let staying: BTreeSet<&str> = claims().filter(|claim| !is_deleted(claim)).map(name).collect();
        let awaited: BTreeSet<&str> =
            claims().filter_map(|claim| claim.replaced_by()).flat_map(|all| all.split(',')).collect();
        let mut open = Self::default();
        for claim in claims().filter(|claim| !is_deleted(claim) && !claim.is_true(condition::INITIALIZED)) {
            let list = if awaited.contains(name(claim)) {
                &mut open.awaited
            } else if claim.replaces().any(|replaced| staying.contains(replaced)) {
                &mut open.abandoned
            } else {
                continue;
            };
            let first = list.entry(claim.nodepool()).or_insert_with(|| name(claim));
            *first = name(claim).min(first);
        }
        open
    }

    /// Returns whether a NodePool may launch replacements. A replacement that failed is deleted or initialized before the next
    /// attempt, also after a restart of the controller.
    pub(super) fn state(&self, pool: &str, failed: Option<&FailedReplacements>, now: Timestamp) -> ReplacementState {
        let awaiting = |claim: &&str| ReplacementState::Awaiting { claim: (*claim).to_owned() };
        if let Some(claim) = self.abandoned.get(pool) {
            return awaiting(claim);
        }
        match failed {
            None => ReplacementState::Allowed,
            Some(FailedReplacements { failures, until }) if *until > now => {
                ReplacementState::Paused { failures: *failures, until: millis(*until) }
            }
            Some(_) => self.awaited.get(pool).map_or(ReplacementState::One, awaiting),
        }
    }
}

fn is_deleted(claim: &NodeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_some()
}

fn name(claim: &NodeClaim) -> &str {
    claim.metadata.name.as_deref().unwrap_or_default()
}
