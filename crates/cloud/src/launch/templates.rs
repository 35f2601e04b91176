//! Which launch templates exist, as far as we know: a template's name is a hash of its content, so one that exists is the
//! right one and need not be asked for again. What nobody has used for a while goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::label;
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};

use super::LaunchChoice;
use crate::calls::{LaunchTemplate, LaunchTemplateRequest};

/// A template that no launch has used for so long is deleted; if it is needed again it is made again.
pub const UNUSED: SignedDuration = SignedDuration::from_hours(1);
/// The same for a template whose class is gone.
pub const ORPHANED: SignedDuration = SignedDuration::from_mins(10);
/// A list may not show yet what was made this recently.
const SHOWN: SignedDuration = SignedDuration::from_secs(60);

/// The templates that are known to exist. Lives in one process; the first list after a start fills it.
#[derive(Debug, Default)]
pub struct Templates {
    known: Mutex<BTreeMap<String, Entry>>,
    /// Those that are being made now. Whoever has the lock makes it; the others wait, for a call is dear.
    making: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    class: String,
    used: Timestamp,
}

impl Templates {
    /// The choice's templates that are not known to exist; the others count as used now.
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

    /// Whether a template is known to exist.
    pub(super) fn is_known(&self, name: &str) -> bool {
        self.known().contains_key(name)
    }

    /// The lock under which a template is made.
    pub(super) fn turn(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut making = self.making.lock();
        Arc::clone(making.entry(name.to_owned()).or_default())
    }

    /// A template exists from now on.
    pub fn exists(&self, template: &LaunchTemplateRequest, now: Timestamp) {
        let class = template.tags.get(label::EC2_NODE_CLASS).cloned().unwrap_or_default();
        self.known().insert(template.name.clone(), Entry { class, used: now });
        self.making.lock().remove(&template.name);
    }

    /// Templates that EC2 does not have after all.
    pub fn forget<'n>(&self, names: impl Iterator<Item = &'n String>) {
        let mut known = self.known();
        for name in names {
            known.remove(name);
        }
    }

    /// Compares with all templates that EC2 lists for the cluster: those that are new to us count as used now, so that
    /// nothing is deleted because we have just started; those that are gone are forgotten.
    pub fn verify(&self, listed: &[LaunchTemplate], now: Timestamp) {
        let mut known = self.known();
        let names: BTreeSet<&str> = listed.iter().map(|template| template.name.as_str()).collect();
        known.retain(|name, entry| names.contains(name.as_str()) || now.duration_since(entry.used) < SHOWN);
        for template in listed {
            let class = template.tags.get(label::EC2_NODE_CLASS).cloned().unwrap_or_default();
            known.entry(template.name.clone()).or_insert(Entry { class, used: now });
        }
    }

    /// Names of the templates to delete, given the classes that exist.
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
