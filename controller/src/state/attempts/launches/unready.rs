//! Nodes of a NodePool that came up and that no pod could use.

use jiff::Timestamp;

use super::{LaunchAttempts, PoolVersion, StoredFailures, bounded_cause};

/// Nodes in a row of one NodePool; none after an initialized node.
#[derive(Clone, Debug)]
pub(super) struct UnreadyNodes {
    pub(super) version: PoolVersion,
    pub(super) count: u32,
    pub(super) last: Timestamp,
    pub(super) cause: String,
}

impl UnreadyNodes {
    pub(super) const fn is_failing(&self) -> bool {
        self.count > 0
    }
}

impl LaunchAttempts {
    /// Records a node of a NodePool that came up and that no pod could use in time.
    pub fn fail_startup(&mut self, pool: &str, version: PoolVersion, cause: &str, now: Timestamp) {
        let known = self.unready.remove(pool).filter(|known| known.version == version);
        let count = known.map_or(0, |known| known.count).saturating_add(1);
        let cause = bounded_cause(cause);
        self.unready.insert(pool.to_owned(), UnreadyNodes { version, count, last: now, cause });
    }

    /// Records an initialized node of a NodePool. The record remains, so that an older annotation has no effect.
    pub fn succeed_startup(&mut self, pool: &str, version: PoolVersion, now: Timestamp) {
        let none = UnreadyNodes { version, count: 0, last: now, cause: String::new() };
        self.unready.insert(pool.to_owned(), none);
    }

    /// Returns the nodes in a row that no pod could use, if there are any in this version of the NodePool.
    pub(in crate::state::attempts) fn stored_startups(
        &self,
        pool: &str,
        version: &PoolVersion,
    ) -> Option<StoredFailures> {
        let nodes = self.unready.get(pool).filter(|nodes| nodes.is_failing() && nodes.version == *version)?;
        Some(StoredFailures { count: nodes.count, last: nodes.last, cause: nodes.cause.clone() })
    }

    /// Restores nodes of an earlier process, unless a later result of this version is known.
    pub(in crate::state::attempts) fn restore_startups(
        &mut self,
        pool: &str,
        version: &PoolVersion,
        stored: StoredFailures,
    ) {
        let StoredFailures { count, last, cause } = stored;
        let known = self.unready.get(pool).filter(|known| known.version == *version);
        if known.is_none_or(|known| known.last < last) {
            self.unready.insert(pool.to_owned(), UnreadyNodes { version: version.clone(), count, last, cause });
        }
    }
}
