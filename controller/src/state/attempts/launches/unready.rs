//! Nodes of a NodePool that came up and that no pod could use. An annotation of the NodePool keeps them over a restart of the
//! controller.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{LaunchAttempts, PoolVersion};

/// Maximum number of characters of a stored cause. Nodes write parts of it.
const CAUSE: usize = 300;

/// Nodes in a row of one NodePool; none after an initialized node.
#[derive(Clone, Debug)]
pub(super) struct UnreadyNodes {
    pub(super) version: PoolVersion,
    pub(super) count: u32,
    pub(super) last: Timestamp,
    pub(super) cause: String,
}

/// Value of the annotation.
#[derive(Debug, Serialize, Deserialize)]
struct StoredNodes {
    /// Version of the NodePool; a change ends the memory.
    version: String,
    count: u32,
    last: Timestamp,
    cause: String,
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
        let cause = cause.chars().take(CAUSE).collect();
        self.unready.insert(pool.to_owned(), UnreadyNodes { version, count, last: now, cause });
    }

    /// Records an initialized node of a NodePool. The record remains, so that an older annotation has no effect.
    pub fn succeed_startup(&mut self, pool: &str, version: PoolVersion, now: Timestamp) {
        let none = UnreadyNodes { version, count: 0, last: now, cause: String::new() };
        self.unready.insert(pool.to_owned(), none);
    }

    /// Continues from what [`Self::stored_startups`] returned in an earlier process, unless this process has a result already or
    /// the NodePool has changed. Invalid text has no effect.
    pub fn restore_startups(&mut self, pool: &str, version: &PoolVersion, stored: &str, now: Timestamp) {
        let is_known = self.unready.get(pool).is_some_and(|known| known.version == *version);
        let Some(stored) = (!is_known).then(|| serde_json::from_str::<StoredNodes>(stored).ok()).flatten() else {
            return;
        };
        let StoredNodes { version: digest, count, last, cause } = stored;
        if digest == version.digest() {
            let cause = cause.chars().take(CAUSE).collect();
            let nodes = UnreadyNodes { version: version.clone(), count, last: last.min(now), cause };
            self.unready.insert(pool.to_owned(), nodes);
        }
    }

    /// Returns the nodes in a row that no pod could use, if there are any in this version of the NodePool.
    #[must_use]
    pub fn stored_startups(&self, pool: &str, version: &PoolVersion) -> Option<String> {
        let nodes = self.unready.get(pool).filter(|nodes| nodes.is_failing() && nodes.version == *version)?;
        let UnreadyNodes { version, count, last, cause } = nodes.clone();
        serde_json::to_string(&StoredNodes { version: version.digest(), count, last, cause }).ok()
    }
}
