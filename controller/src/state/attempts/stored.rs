//! Failures of attempts as an annotation of their NodePool, so that a restarted controller, or the next leader, continues the
//! delays and pauses. Every process stores its own view; the text names the process, so that none restores what it wrote itself.

use std::collections::BTreeMap;

use api::{NodePool, annotation};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::launches::{LaunchAttempts, StoredLaunch};
use super::replacements::Replacements;
use super::{FailuresInARow, PoolVersion};
use crate::state::index::Index;

/// Failures of one NodePool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stored {
    /// Process that stored them.
    by: String,
    version: PoolVersion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replacements: Option<FailuresInARow>,
    /// Nodes in a row that came up and that no pod could use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    startups: Option<FailuresInARow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    launches: Vec<StoredLaunch>,
}

/// Results of the attempts of this process, and of earlier ones as far as their NodePools store them.
#[derive(Debug)]
pub struct Attempts {
    /// Launches whose result is open, and those that gave pods no place.
    pub launches: Mutex<LaunchAttempts>,
    /// Results of replacements.
    pub replacements: Replacements,
    /// Name of this process.
    by: String,
    /// Hash of the last text of another process, by NodePool. Each text is restored once.
    seen: Mutex<BTreeMap<String, u64>>,
}

impl Attempts {
    /// Creates an empty memory for a process with a unique name.
    #[must_use]
    pub fn new(by: String) -> Self {
        Self { launches: Mutex::default(), replacements: Replacements::default(), by, seen: Mutex::default() }
    }

    /// Restores failures that another process stored for the present version of a NodePool and its EC2NodeClass. Without a complete
    /// index, the version is unknown. Later calls change nothing until the text changes.
    pub fn restore(&self, index: &Index, pool: &NodePool, now: Timestamp) {
        if !index.is_synced() {
            return;
        }
        let Some((name, stored)) = self.unseen(pool) else { return };
        let version = PoolVersion::from_index(index, name);
        if stored.version != version {
            return;
        }
        let mut launches = self.launches.lock();
        for launch in stored.launches {
            launches.restore(name, &version, launch.until(now));
        }
        if let Some(startups) = stored.startups {
            launches.restore_startups(name, version.clone(), startups.until(now));
        }
        drop(launches);
        if let Some(replacements) = stored.replacements {
            self.replacements.restore(name, version, replacements.until(now));
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
    pub fn text(&self, index: &Index, pool: &str) -> Option<String> {
        if !index.is_synced() {
            return None;
        }
        let version = PoolVersion::from_index(index, pool);
        let memory = self.launches.lock();
        let (launches, startups) = (memory.stored(pool, &version), memory.stored_startups(pool, &version));
        drop(memory);
        let replacements = self.replacements.stored(pool, &version);
        if replacements.is_none() && startups.is_none() && launches.is_empty() {
            return Some(String::new());
        }
        let stored = Stored { by: self.by.clone(), version, replacements, startups, launches };
        serde_json::to_string(&stored).ok()
    }
}

/// Returns the stored text of a NodePool.
fn stored_text(pool: &NodePool) -> Option<&str> {
    pool.metadata.annotations.as_ref()?.get(annotation::FAILED_ATTEMPTS).map(String::as_str)
}

#[cfg(test)]
mod tests;
