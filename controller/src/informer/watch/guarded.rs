//! An object as the API server shows it, which may be malformed: one that cannot be read must not keep its watch from going on.
//!
//! kube's `DeserializeGuard` does the same with a copy of each object: an eighth of all that the controller asked of its allocator.

use std::borrow::Cow;

use kube::Resource;
use kube::api::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The object, or what can be said of one that cannot be read.
#[derive(Clone, Debug)]
pub struct Guarded<K>(pub Result<K, Malformed>);

/// An object that cannot be read.
#[derive(Clone, Debug)]
pub struct Malformed {
    /// What names it, and its version.
    pub metadata: ObjectMeta,
    /// Why it cannot be read.
    pub error: String,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let metadata = identity(&value);
        Ok(Self(serde_json::from_value(value).map_err(|error| Malformed { metadata, error: error.to_string() })))
    }
}

/// What an event needs of its object, and a watch to go on behind it.
fn identity(object: &Value) -> ObjectMeta {
    let text = |key: &str| object.get("metadata")?.get(key)?.as_str().map(str::to_owned);
    ObjectMeta {
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..ObjectMeta::default()
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        K::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        K::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        K::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        K::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|malformed| &malformed.metadata, Resource::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        match &mut self.0 {
            Ok(object) => object.meta_mut(),
            Err(malformed) => &mut malformed.metadata,
        }
    }
}
