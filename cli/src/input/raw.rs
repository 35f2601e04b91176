//! Objects before their conversion into types, with the errors that refer to them.

use serde_json::Value;

use super::error::{InputError, Place, quoted};
use super::kinds::Kind;

/// Identity of an object in the input, in the order of the result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectKey {
    pub(super) kind: Kind,
    pub(super) namespace: String,
    /// Name, or `generateName` of an object without a name.
    pub(super) name: String,
}

/// One object as it was written.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) place: Place,
    pub(super) kind: Kind,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) value: Value,
}

impl Raw {
    /// Converts a document into an object. A namespaced object without a namespace is in namespace `default`.
    ///
    /// # Errors
    /// Returns an error if a name is not a string, such as a bare `12` or `no`.
    pub(super) fn new(place: Place, kind: Kind, value: Value) -> Result<Self, InputError> {
        if let Some(error) = not_text(&place, kind, &value) {
            return Err(error);
        }
        let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
        let name = text("name");
        let namespace = match (kind.is_namespaced(), text("namespace")) {
            (false, _) => String::new(),
            (true, namespace) if namespace.is_empty() => "default".to_owned(),
            (true, namespace) => namespace,
        };
        Ok(Self { place, kind, namespace, name, value })
    }

    /// Returns the identity of the object.
    pub(super) fn key(&self) -> ObjectKey {
        ObjectKey { kind: self.kind, namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// Returns `namespace/name`, or the name of an object without a namespace.
    pub(super) fn full_name(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }

    /// Returns the prefix of the name that the API server would complete.
    pub(super) fn generate_name(&self) -> &str {
        self.value["metadata"]["generateName"].as_str().unwrap_or_default()
    }

    /// Returns an error in one field of the object.
    pub(super) fn fault(&self, path: &str, problem: &str, cure: impl Into<String>) -> InputError {
        let error =
            InputError::new(&self.place, format!("{} {}: {path}: {problem}", self.kind, self.full_name()), cure);
        InputError { field: path.into(), ..error }
    }

    /// Returns the error for an object without a name.
    pub(super) fn nameless(&self) -> InputError {
        InputError::new(&self.place, format!("{}: metadata.name: missing", self.kind), "set a name")
    }

    /// Returns the error for an object that occurs twice with different content.
    pub(super) fn conflict(&self, first: &Place) -> InputError {
        let problem = format!("{} {} is also in {first}, with other content", self.kind, self.full_name());
        InputError::new(&self.place, problem, "remove one of them")
    }
}

fn not_text(place: &Place, kind: Kind, value: &Value) -> Option<InputError> {
    let written = |field: &&str| !matches!(value["metadata"][*field], Value::Null | Value::String(_));
    let field = ["name", "namespace", "generateName"].into_iter().find(written)?;
    let given = &value["metadata"][field];
    let problem = format!("{kind}: metadata.{field}: {given} is not a string");
    Some(InputError::new(place, problem, quoted(given)))
}
