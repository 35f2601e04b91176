//! Failures in a row of each NodePool, in one version of it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{FailuresInARow, PoolVersion, bounded_cause};

/// Failures since the last success by the name of the NodePool. A success remains as no failures, so that an older annotation
/// has no effect.
#[derive(Clone, Debug, Default)]
pub(super) struct PoolFailures(BTreeMap<String, (PoolVersion, FailuresInARow)>);

impl PoolFailures {
    /// Records one more failure.
    pub(super) fn fail(&mut self, pool: &str, version: PoolVersion, cause: &str, now: Timestamp) {
        let count = self.of(pool, &version).map_or(0, |known| known.count).saturating_add(1);
        self.set(pool, version, FailuresInARow { count, last: now, cause: bounded_cause(cause) });
    }

    /// Replaces the cause of the last failure by that of another one of the same attempt.
    pub(super) fn fail_again(&mut self, pool: &str, cause: &str) {
        if let Some((_, known)) = self.0.get_mut(pool) {
            known.cause = bounded_cause(cause);
        }
    }

    /// Records a success.
    pub(super) fn succeed(&mut self, pool: &str, version: PoolVersion, now: Timestamp) {
        self.set(pool, version, FailuresInARow { count: 0, last: now, cause: String::new() });
    }

    /// Restores failures of an earlier process, unless a later result of this version is known.
    pub(super) fn restore(&mut self, pool: &str, version: PoolVersion, stored: FailuresInARow) {
        if self.of(pool, &version).is_none_or(|known| known.last < stored.last) {
            self.set(pool, version, stored);
        }
    }

    /// Returns the result of a NodePool in this version: no failures after a success.
    pub(super) fn of(&self, pool: &str, version: &PoolVersion) -> Option<&FailuresInARow> {
        self.0.get(pool).filter(|(known, _)| known == version).map(|(_, failures)| failures)
    }

    /// Returns the failures of a NodePool in this version, if there are any.
    pub(super) fn stored(&self, pool: &str, version: &PoolVersion) -> Option<FailuresInARow> {
        self.of(pool, version).filter(|known| known.count > 0).cloned()
    }

    /// Returns the failures of a NodePool in the version where they occurred.
    pub(super) fn last_known(&self, pool: &str) -> Option<&FailuresInARow> {
        self.0.get(pool).map(|(_, failures)| failures)
    }

    /// Returns all NodePools with their failures.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &FailuresInARow)> {
        self.0.iter().map(|(pool, (_, failures))| (pool, failures))
    }

    /// Drops the results of earlier versions.
    pub(super) fn retain_current(&mut self, version: &dyn Fn(&str) -> PoolVersion) {
        self.0.retain(|pool, (known, _)| *known == version(pool));
    }

    fn set(&mut self, pool: &str, version: PoolVersion, failures: FailuresInARow) {
        self.0.insert(pool.to_owned(), (version, failures));
    }
}
