//! Objects of one kind by key, with the state of their first list.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use kube::Resource;

/// Key of an object: `namespace/name`, or `name` without a namespace.
pub type Key = String;

/// Returns the key of an object.
#[must_use]
pub fn key_of(object: &impl Resource) -> Key {
    let meta = object.meta();
    let name = meta.name.as_deref().unwrap_or_default();
    match &meta.namespace {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// Reports whether both are the same object in the same version.
pub(super) fn same_version(one: &impl Resource, other: &impl Resource) -> bool {
    one.meta().uid == other.meta().uid && one.meta().resource_version == other.meta().resource_version
}

/// Number of deleted objects whose UID is remembered. The response of a write may arrive after the watch has reported the
/// deletion of the object, and must not restore it. Responses are seconds late at most, and fewer objects than this are deleted
/// in that time.
const REMEMBERED: usize = 4096;

/// Objects of one kind.
#[derive(Debug)]
pub struct Table<K> {
    objects: BTreeMap<Key, Arc<K>>,
    gone: VecDeque<String>,
    synced: bool,
}

impl<K> Default for Table<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), gone: VecDeque::new(), synced: false }
    }
}

impl<K: Resource> Table<K> {
    /// Returns the object with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<K>> {
        self.objects.get(key)
    }

    /// Returns all objects in the order of their keys.
    pub fn values(&self) -> impl Iterator<Item = &Arc<K>> {
        self.objects.values()
    }

    /// Returns all keys in order.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.objects.keys()
    }

    /// Returns the objects whose keys begin with `front`.
    pub fn starting_with(&self, front: String) -> impl Iterator<Item = &Arc<K>> {
        let listed = self.objects.range::<str, _>((Bound::Included(front.as_str()), Bound::Unbounded));
        listed.take_while(move |(key, _)| key.starts_with(&front)).map(|(_, object)| object)
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Reports whether the table has no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Reports whether the first list is complete.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    pub(super) fn mark_synced(&mut self) {
        self.synced = true;
    }

    /// Inserts an object and returns the previous one. Returns the object itself as an error if it is older than the stored one
    /// or was deleted. Both happen because responses of writes and the watch overtake each other.
    pub(super) fn put(&mut self, object: Arc<K>) -> Result<Option<Arc<K>>, Arc<K>> {
        let key = key_of(object.as_ref());
        let gone = object.meta().uid.as_ref().is_some_and(|uid| self.gone.contains(uid));
        let held = self.objects.get(&key);
        if gone || held.is_some_and(|held| is_older(object.as_ref(), held.as_ref())) {
            return Err(object);
        }
        Ok(self.objects.insert(key, object))
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Arc<K>> {
        let object = self.objects.remove(key)?;
        self.gone.extend(object.meta().uid.clone());
        if self.gone.len() > REMEMBERED {
            self.gone.pop_front();
        }
        Some(object)
    }
}

/// Reports whether `one` is an older version of `other`. Resource versions of one object are growing numbers (guaranteed since
/// Kubernetes 1.35, and in fact before).
fn is_older(one: &impl Resource, other: &impl Resource) -> bool {
    let version = |meta: &kube::api::ObjectMeta| meta.resource_version.as_deref()?.parse::<u64>().ok();
    one.meta().uid == other.meta().uid && version(one.meta()) < version(other.meta())
}
