//! Replacements that were not initialized, by the NodePool that launched them. While replacements of a NodePool fail, commands
//! that need one there wait, each time twice as long.

use std::collections::BTreeMap;
use std::time::Duration;

use api::NodeClaim;
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use snapshot::FailedReplacements;

use super::pool_failures::PoolFailures;
use super::{Backoff, FailuresInARow, PoolVersion};
use crate::state::index::Index;

/// Delay of the next command: the first one is as long as a command waits for its replacements.
const DELAY: Backoff = Backoff::new(Duration::from_secs(10 * 60), Duration::from_secs(60 * 60));

/// Health of the replacements of a NodePool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReplacementHealth {
    /// No result in this process.
    #[default]
    Unknown,
    /// The last replacement was initialized.
    Healthy,
    /// The last replacements failed.
    Failing {
        /// Number of attempts in a row.
        failures: u32,
        /// Time of the next attempt.
        until: Timestamp,
        /// Last replacement that failed, and the cause.
        cause: String,
    },
}

/// Results of the replacements of all NodePools.
#[derive(Clone, Debug, Default)]
pub struct ReplacementHistory(PoolFailures);

impl ReplacementHistory {
    /// Records a replacement that was not initialized. Replacements that began before the last failure belong to the same
    /// attempt.
    pub fn fail(&mut self, claim: &NodeClaim, version: PoolVersion, cause: &str, now: Timestamp) {
        let (name, pool) = (claim.metadata.name.as_deref().unwrap_or_default(), claim.nodepool());
        let created = claim.metadata.creation_timestamp.as_ref().map_or(now, |at| at.0);
        let cause = format!("{name}: {cause}");
        match self.0.of(pool, &version) {
            Some(known) if known.count > 0 && created <= known.last => self.0.fail_again(pool, &cause),
            _ => self.0.fail(pool, version, &cause, now),
        }
    }

    /// Records a replacement that was initialized.
    pub fn succeed(&mut self, pool: &str, version: PoolVersion, now: Timestamp) {
        self.0.succeed(pool, version, now);
    }

    /// Returns the health of a NodePool in its present version.
    #[must_use]
    pub fn health(&self, pool: &str, version: &PoolVersion) -> ReplacementHealth {
        match self.0.of(pool, version) {
            None => ReplacementHealth::Unknown,
            Some(FailuresInARow { count: 0, .. }) => ReplacementHealth::Healthy,
            Some(FailuresInARow { count, last, cause }) => {
                ReplacementHealth::Failing { failures: *count, until: DELAY.next(*count, *last), cause: cause.clone() }
            }
        }
    }
}

/// Results of replacements, shared by commands, NodeClaims and plans.
#[derive(Debug, Default)]
pub struct Replacements(Mutex<ReplacementHistory>);

impl Replacements {
    /// Records a replacement that was not initialized.
    pub fn fail(&self, index: &Index, claim: &NodeClaim, cause: &str, now: Timestamp) {
        self.history().fail(claim, PoolVersion::from_index(index, claim.nodepool()), cause, now);
    }

    /// Records a replacement that was initialized.
    pub fn succeed(&self, index: &Index, claim: &NodeClaim, now: Timestamp) {
        self.history().succeed(claim.nodepool(), PoolVersion::from_index(index, claim.nodepool()), now);
    }

    /// Returns the health of a NodePool.
    #[must_use]
    pub fn health(&self, index: &Index, pool: &str) -> ReplacementHealth {
        self.history().health(pool, &PoolVersion::from_index(index, pool))
    }

    /// Returns the failures of a NodePool in this version.
    pub(super) fn stored(&self, pool: &str, version: &PoolVersion) -> Option<FailuresInARow> {
        self.history().0.stored(pool, version)
    }

    /// Restores failures of an earlier process.
    pub(super) fn restore(&self, pool: &str, version: PoolVersion, stored: FailuresInARow) {
        self.history().0.restore(pool, version, stored);
    }

    /// Returns the NodePools whose replacements fail.
    #[must_use]
    pub fn failing(&self, index: &Index) -> BTreeMap<String, FailedReplacements> {
        let history = self.history();
        let failed = |pool: &String| match history.health(pool, &PoolVersion::from_index(index, pool)) {
            ReplacementHealth::Failing { failures, until, .. } => {
                Some((pool.clone(), FailedReplacements { failures, until }))
            }
            ReplacementHealth::Unknown | ReplacementHealth::Healthy => None,
        };
        history.0.iter().map(|(pool, _)| pool).filter_map(failed).collect()
    }

    fn history(&self) -> MutexGuard<'_, ReplacementHistory> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::super::PoolVersion;
    use super::{ReplacementHealth, ReplacementHistory};
    use crate::fixture::{at, claim};

    fn failing(history: &ReplacementHistory, version: &PoolVersion) -> Option<(u32, Timestamp)> {
        match history.health("default", version) {
            ReplacementHealth::Failing { failures, until, .. } => Some((failures, until)),
            _ => None,
        }
    }

    fn fail(history: &mut ReplacementHistory, created: i64, now: i64) {
        let meta = json!({"metadata": {"creationTimestamp": at(created).to_string()}});
        history.fail(&claim(&meta), PoolVersion::default(), "timed out", at(now));
    }

    #[test]
    fn fail_counts_replacements_of_one_attempt_once() {
        let (mut history, version) = (ReplacementHistory::default(), PoolVersion::default());
        fail(&mut history, 0, 600);
        fail(&mut history, 1, 601);
        fail(&mut history, 0, 900);
        assert_eq!(failing(&history, &version), Some((1, at(1200))));
        fail(&mut history, 1200, 1800);
        assert_eq!(failing(&history, &version), Some((2, at(3000))));
        for attempt in 1..10 {
            fail(&mut history, 10_000 * attempt, 10_000 * attempt + 600);
        }
        assert_eq!(failing(&history, &version), Some((11, at(90_600 + 3600))), "the delay has a maximum");
    }

    #[test]
    fn health_ends_after_a_success_or_a_change_of_the_pool() {
        let (mut history, version) = (ReplacementHistory::default(), PoolVersion::default());
        assert_eq!(history.health("default", &version), ReplacementHealth::Unknown);
        fail(&mut history, 0, 600);
        let changed = PoolVersion { pool: Some(("uid".to_owned(), 2)), ..PoolVersion::default() };
        assert_eq!(history.health("default", &changed), ReplacementHealth::Unknown);
        history.succeed("default", version.clone(), at(700));
        assert_eq!(history.health("default", &version), ReplacementHealth::Healthy);
    }
}
