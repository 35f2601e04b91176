//! Object from the API server that may be malformed. A malformed object must not stop its watch.
//!
//! kube's `DeserializeGuard` does the same with a copy of each object, which was an eighth of the controller's allocations.

use std::borrow::Cow;

use kube::Resource;
use kube::api::ObjectMeta;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Object, or metadata and error of a malformed one.
#[derive(Clone, Debug)]
pub struct Guarded<K>(pub Result<K, Malformed>);

/// Object that cannot be deserialized.
#[derive(Clone, Debug)]
pub struct Malformed {
    /// Name, namespace, UID and version of the object.
    pub metadata: ObjectMeta,
    /// Reason why the object cannot be deserialized.
    pub error: String,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let metadata = identity(&value);
        Ok(Self(serde_json::from_value(value).map_err(|error| Malformed { metadata, error: error.to_string() })))
    }
}

/// Returns the metadata that an event needs, and that a watch needs to continue after the object.
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
