//! Objects of the API server: each version as JSON, read into a type at most once, and the events of its watchers.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// One version of an object.
#[derive(Debug)]
pub struct Stored {
    value: Value,
    typed: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl Stored {
    pub(crate) fn new(value: Value) -> Arc<Self> {
        Arc::new(Self { value, typed: OnceLock::new() })
    }

    /// Returns the object as JSON.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the object as its type. Every caller must use the same type for a kind.
    pub fn typed<K: DeserializeOwned + Send + Sync + 'static>(&self) -> Arc<K> {
        let read = || -> Arc<dyn Any + Send + Sync> { Arc::new(K::deserialize(&self.value).unwrap()) };
        Arc::clone(self.typed.get_or_init(read)).downcast().unwrap()
    }
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object was created or changed.
    Stored,
    /// The object was removed; the event has its last state.
    Removed,
    /// A client's request to evict or delete a pod was accepted, and takes effect with the next event of the pod.
    Leaving {
        /// Deletion without an eviction.
        forced: bool,
    },
}

/// Change of an object.
#[derive(Clone, Debug)]
pub struct Event {
    /// Kind of the object, as the plural in paths.
    pub plural: String,
    /// Current or last state.
    pub object: Arc<Stored>,
    /// Kind of the event.
    pub change: Change,
}

/// Objects by plural, then by `namespace/name`.
#[derive(Clone, Debug, Default)]
pub struct Objects(BTreeMap<String, BTreeMap<String, Arc<Stored>>>);

impl Objects {
    /// Returns copies of all objects of a kind.
    pub fn all<K: DeserializeOwned + Clone + Send + Sync + 'static>(&self, plural: &str) -> Vec<K> {
        self.of(plural).map(|object| K::clone(&object.typed::<K>())).collect()
    }

    /// Returns all objects of a kind.
    pub fn shared<K: DeserializeOwned + Send + Sync + 'static>(&self, plural: &str) -> Vec<Arc<K>> {
        self.of(plural).map(|object| object.typed::<K>()).collect()
    }

    pub(crate) fn get(&self, plural: &str, key: &str) -> Option<&Arc<Stored>> {
        self.0.get(plural)?.get(key)
    }

    pub(crate) fn put(&mut self, plural: &str, key: String, object: Arc<Stored>) {
        self.0.entry(plural.to_owned()).or_default().insert(key, object);
    }

    pub(crate) fn take(&mut self, plural: &str, key: &str) -> Option<Arc<Stored>> {
        self.0.get_mut(plural)?.remove(key)
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        let event = |plural: &String, object: &Arc<Stored>| Event {
            plural: plural.clone(),
            object: Arc::clone(object),
            change: Change::Stored,
        };
        self.0.iter().flat_map(|(plural, all)| all.values().map(move |object| event(plural, object))).collect()
    }

    fn of(&self, plural: &str) -> impl Iterator<Item = &Arc<Stored>> {
        self.0.get(plural).into_iter().flat_map(BTreeMap::values)
    }
}
