//! Fields of one mapping while it is read, with merge keys.

use std::collections::BTreeSet;

use super::Fault;
use super::tree::{Field, Key, Kind, Node};

/// End of the problem of a key that a mapping has twice.
pub const REPEATED: &str = "is repeated";

/// Fields that were read so far.
pub(super) struct Fields {
    list: Vec<Field>,
    known: BTreeSet<String>,
    /// Fields of merge keys: below all others, or, where keys may repeat, the names of those in the list.
    merged: Vec<Field>,
    merged_names: BTreeSet<String>,
    repeats: bool,
}

impl Fields {
    /// Creates an empty mapping. With `repeats`, equal keys and the fields of merge keys stay in their order.
    pub(super) fn new(repeats: bool) -> Self {
        let (list, merged) = (Vec::new(), Vec::new());
        Self { list, known: BTreeSet::new(), merged, merged_names: BTreeSet::new(), repeats }
    }

    /// Adds a field.
    ///
    /// # Errors
    /// Returns a [`Fault`] if the key repeats and may not.
    pub(super) fn add(&mut self, key: Key, value: Node) -> Result<(), Fault> {
        if !self.known.insert(key.text.clone()) && !self.repeats {
            return Err(Fault::new(key.at, format!("`{}` {REPEATED}", key.text)));
        }
        if self.merged_names.remove(&key.text) {
            self.list.retain(|(known, _)| known.text != key.text);
        }
        self.list.push((key, value));
        Ok(())
    }

    /// Adds the fields of a merge key.
    ///
    /// # Errors
    /// Returns a [`Fault`] if the value is no mapping.
    pub(super) fn merge(&mut self, value: Node) -> Result<(), Fault> {
        let fields = merged(value)?;
        if self.repeats {
            first_of_each(fields).into_iter().for_each(|(key, value)| self.merge_in_order(key, value));
        } else {
            self.merged.extend(fields);
        }
        Ok(())
    }

    /// Adds the field of a merge key after the fields so far, as Go's library does; the YAML specification puts it below them.
    fn merge_in_order(&mut self, key: Key, value: Node) {
        if !self.merged_names.insert(key.text.clone()) {
            self.list.retain(|(known, _)| known.text != key.text);
        }
        self.list.push((key, value));
    }

    /// Returns all fields; those of merge keys are last.
    pub(super) fn finish(mut self) -> Vec<Field> {
        self.list.extend(self.merged.into_iter().filter(|(key, _)| self.known.insert(key.text.clone())));
        self.list
    }
}

fn first_of_each(fields: Vec<Field>) -> Vec<Field> {
    let mut known = BTreeSet::new();
    fields.into_iter().filter(|(key, _)| known.insert(key.text.clone())).collect()
}

/// Returns the fields of a merge key: of one mapping, or of several, of which earlier ones take precedence.
fn merged(value: Node) -> Result<Vec<Field>, Fault> {
    match value.kind {
        Kind::Map(fields) => Ok(fields),
        Kind::List(items) => {
            let several: Result<Vec<_>, Fault> = items.into_iter().map(merged).collect();
            Ok(several?.into_iter().flatten().collect())
        }
        Kind::Scalar(scalar) if scalar.is_null() => Ok(Vec::new()),
        Kind::Scalar(_) => Err(Fault::new(value.at, "expected a mapping behind <<")),
    }
}
