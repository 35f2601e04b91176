//! One kind's objects by key, and whether the first list of them is complete.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::Resource;

/// `namespace/name`, or `name` for what has no namespace.
pub type Key = String;

/// The key of an object.
#[must_use]
pub fn key_of(object: &impl Resource) -> Key {
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or_default();
    match &meta.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// Whether both are the same object in the same version.
pub(super) fn same_version(one: &impl Resource, other: &impl Resource) -> bool {
    one.meta().uid == other.meta().uid && one.meta().resource_version == other.meta().resource_version
}

/// Objects of one kind.
#[derive(Debug)]
pub struct Table<K> {
    objects: BTreeMap<Key, Arc<K>>,
    synced: bool,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), synced: false }
    }
}

impl<K: Resource> Table<K> {
    /// The object of that key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// All objects in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values()
    }

    /// All keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.objects.keys()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Whether the first list is complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    pub(super) fn mark_synced(&mut self) {
        self.synced = true;
    }

    /// Puts an object in and returns what was there. An older version than the one we hold (a write's answer
    /// can overtake the watch) is not taken.
    pub(super) fn put(&mut self, object: Arc<K>) -> Option<Arc<K>> {
        let key = key_of(object.as_ref());
        if let Some(held) = self.objects.get(&key)
            && is_older(object.as_ref(), held.as_ref())
        {
            return Some(object);
        }
        self.objects.insert(key, object)
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Arc<K>> {
        self.objects.remove(key)
    }
}

/// Resource versions of one object are numbers that grow (Kubernetes 1.35 and later promise it; before, they did).
fn is_older(one: &impl Resource, other: &impl Resource) -> bool {
    let version = |meta: &kube::api::ObjectMeta| meta.resource_version.as_deref()?.parse::<u64>().ok();
    one.meta().uid == other.meta().uid && version(one.meta()) < version(other.meta())
}
