//! Failures of attempts as an annotation of their NodePool, so that a restarted controller, or the next leader, continues the
//! delays. Every process stores its own view; the text names the process, so that none restores what it wrote itself.

use std::collections::BTreeMap;

use api::{NodePool, annotation};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::launches::{LaunchAttempts, StoredLaunch};
use super::replacements::Replacements;
use super::{PoolVersion, StoredFailures};
use crate::state::index::Index;

/// Failures of one NodePool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    /// Process that stored them.
    by: String,
    version: PoolVersion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replacements: Option<StoredFailures>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    launches: Vec<StoredLaunch>,
}

/// Stored failures, as far as this process knows them.
#[derive(Debug)]
pub struct AttemptStore {
    /// Name of this process.
    by: String,
    /// Hash of the last text of another process, by NodePool. Each text is restored once.
    seen: Mutex<BTreeMap<String, u64>>,
}

impl AttemptStore {
    /// Creates a store for a process with a unique name.
    #[must_use]
    pub fn new(by: String) -> Self {
        Self { by, seen: Mutex::default() }
    }

    /// Restores failures that another process stored for the present version of a NodePool and its EC2NodeClass. Without a complete
    /// index, the version is unknown.
    pub fn restore(&self, index: &Index, launches: &Mutex<LaunchAttempts>, replacements: &Replacements) {
        if !index.is_synced() {
            return;
        }
        for pool in index.pools.values() {
            if let Some((name, stored)) = self.unseen(pool) {
                let version = PoolVersion::from_index(index, name);
                if stored.version == version {
                    launches.lock().restore(name, &version, stored.launches);
                    stored.replacements.into_iter().for_each(|it| replacements.restore(name, version.clone(), it));
                }
            }
        }
    }

    /// Returns what another process stored, once for each text.
    fn unseen<'p>(&self, pool: &'p NodePool) -> Option<(&'p str, Stored)> {
        let name = pool.metadata.name.as_deref()?;
        let Some(text) = stored_text(pool) else {
            self.seen.lock().remove(name);
            return None;
        };
        let hash = api::hash::fnv1a(text.bytes());
        if self.seen.lock().insert(name.to_owned(), hash) == Some(hash) {
            return None;
        }
        match serde_json::from_str::<Stored>(text) {
            Ok(stored) => (stored.by != self.by).then_some((name, stored)),
            Err(error) => {
                tracing::warn!(
                    nodepool = name,
                    error = error.to_string(),
                    "stored failures are invalid, ignoring them"
                );
                None
            }
        }
    }

    /// Returns the text to store for a NodePool, empty without failures; `None` while the index is not complete.
    #[must_use]
    pub fn text(
        &self,
        index: &Index,
        pool: &str,
        launches: &Mutex<LaunchAttempts>,
        replacements: &Replacements,
    ) -> Option<String> {
        if !index.is_synced() {
            return None;
        }
        let version = PoolVersion::from_index(index, pool);
        let launches = launches.lock().stored(pool, &version);
        let replacements = replacements.stored(pool, &version);
        if replacements.is_none() && launches.is_empty() {
            return Some(String::new());
        }
        let stored = Stored { by: self.by.clone(), version, replacements, launches };
        serde_json::to_string(&stored).ok()
    }
}

/// Returns the stored text of a NodePool.
fn stored_text(pool: &NodePool) -> Option<&str> {
    pool.metadata.annotations.as_ref()?.get(annotation::FAILED_ATTEMPTS).map(String::as_str)
}

#[cfg(test)]
mod tests;
