//! Cache of the existing launch templates. A template's name is a hash of its content, so an existing template is the right one
//! and needs no further call. Templates that no launch uses for a while are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::label;
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};

use super::LaunchChoice;
use crate::calls::{LaunchTemplate, LaunchTemplateRequest};

/// Time without a launch after which a template is deleted; a later launch creates it again.
pub const UNUSED: SignedDuration = SignedDuration::from_hours(1);
/// The same time for a template whose EC2NodeClass is deleted.
pub const ORPHANED: SignedDuration = SignedDuration::from_mins(10);
/// Time for which DescribeLaunchTemplates may omit a new template.
const SHOWN: SignedDuration = SignedDuration::from_secs(60);

/// Launch templates that are known to exist, in memory only. The first list after a start fills the cache.
#[derive(Debug, Default)]
pub struct Templates {
    known: Mutex<BTreeMap<String, Entry>>,
    /// Locks of templates in creation. The task with the lock creates the template and the others wait, which saves calls.
    creating: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    class: String,
    used: Timestamp,
}

impl Templates {
    /// Returns the choice's templates that are not known to exist, and marks the others as used now.
    #[must_use]
    pub fn missing<'c>(&self, choice: &'c LaunchChoice, now: Timestamp) -> Vec<&'c LaunchTemplateRequest> {
        let mut known = self.known();
        let mut is_missing = |template: &&LaunchTemplateRequest| match known.get_mut(&template.name) {
            Some(entry) => {
                entry.used = now;
                false
            }
            None => true,
        };
        choice.templates.iter().filter(&mut is_missing).collect()
    }

    /// Reports whether a template is known to exist.
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.known().contains_key(name)
    }

    /// Returns the lock for the creation of a template.
    pub(super) fn creation_lock(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut creating = self.creating.lock();
        Arc::clone(creating.entry(name.to_owned()).or_default())
    }

    /// Records that a template exists.
    pub fn exists(&self, template: &LaunchTemplateRequest, now: Timestamp) {
        let class = template.tags.get(label::EC2_NODE_CLASS).cloned().unwrap_or_default();
        self.known().insert(template.name.clone(), Entry { class, used: now });
        self.creating.lock().remove(&template.name);
    }

    /// Removes templates that do not exist in EC2.
    pub fn forget<'n>(&self, names: impl Iterator<Item = &'n String>) {
        let mut known = self.known();
        for name in names {
            known.remove(name);
        }
    }

    /// Compares the cache with all templates that EC2 lists for the cluster.
    ///
    /// Templates that are new to the cache count as used now, so that a restart deletes nothing. Deleted templates leave the
    /// cache.
    pub fn verify(&self, listed: &[LaunchTemplate], now: Timestamp) {
        let mut known = self.known();
        let names: BTreeSet<&str> = listed.iter().map(|template| template.name.as_str()).collect();
        known.retain(|name, entry| names.contains(name.as_str()) || now.duration_since(entry.used) < SHOWN);
        for template in listed {
            let class = template.tags.get(label::EC2_NODE_CLASS).cloned().unwrap_or_default();
            known.entry(template.name.clone()).or_insert(Entry { class, used: now });
        }
    }

    /// Returns the names of the templates to delete, given the existing EC2NodeClasses.
    #[must_use]
    pub fn unused(&self, classes: &BTreeSet<String>, now: Timestamp) -> Vec<String> {
        let stale = |entry: &Entry| {
            let patience = if classes.contains(&entry.class) { UNUSED } else { ORPHANED };
            now.duration_since(entry.used) >= patience
        };
        self.known().iter().filter(|(_, entry)| stale(entry)).map(|(name, _)| name.clone()).collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.known.lock()
    }
}
