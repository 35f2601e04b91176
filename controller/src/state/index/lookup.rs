//! Keys of objects by a property, kept up to date with their table, so that no query scans the table.

use std::collections::{BTreeMap, BTreeSet};

use kube::Resource;

use super::{Key, key_of};

/// Keys of the objects of one kind by the value of one property.
#[derive(Debug, Default)]
pub(super) struct Lookup(BTreeMap<String, BTreeSet<Key>>);

impl Lookup {
    /// Returns the keys of the objects with this value, in order.
    pub(super) fn keys(&self, value: &str) -> impl Iterator<Item = &Key> {
        self.0.get(value).into_iter().flatten()
    }

    /// Takes in a change of one object, of which `property` is read. An object without the property is in no set.
    pub(super) fn update<K: Resource>(
        &mut self,
        before: Option<&K>,
        after: Option<&K>,
        property: impl for<'a> Fn(&'a K) -> Option<&'a str>,
    ) {
        let (from, to) = (before.and_then(&property), after.and_then(&property));
        let Some(key) = before.or(after).map(key_of).filter(|_| from != to) else { return };
        if let Some(from) = from {
            self.remove(from, &key);
        }
        if let Some(to) = to {
            self.0.entry(to.to_owned()).or_default().insert(key);
        }
    }

    fn remove(&mut self, value: &str, key: &str) {
        if let Some(keys) = self.0.get_mut(value) {
            keys.remove(key);
            if keys.is_empty() {
                self.0.remove(value);
            }
        }
    }
}
