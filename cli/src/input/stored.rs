//! Objects as an API server stored them, one after another, with changes.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use snapshot::Objects;

use super::changes::Change;
use super::error::{InputErrors, Place};
use super::kinds::{self, Verdict};
use super::objects;
use super::raw::{ObjectKey, Raw};

/// Reader of stored objects.
pub(crate) struct StoredObjects<'c> {
    changes: &'c [Change],
    /// Changes whose object was found.
    applied: BTreeSet<usize>,
    sentences: BTreeSet<String>,
    /// First state of objects that changes may name, for errors.
    changeable: BTreeMap<ObjectKey, Raw>,
}

impl<'c> StoredObjects<'c> {
    pub(crate) fn new(changes: &'c [Change]) -> Self {
        Self { changes, applied: BTreeSet::new(), sentences: BTreeSet::new(), changeable: BTreeMap::new() }
    }

    /// Returns the object with its changes, in the list of its kind; no object if no plan depends on its kind.
    ///
    /// # Errors
    /// Returns the errors of the object and of its changes.
    pub(crate) fn read(&mut self, place: &Place, value: Value) -> Result<Objects, InputErrors> {
        let one = |error| InputErrors::new(vec![error]);
        let mut found = Objects::default();
        let Verdict::Known(kind) = kinds::verdict(place, &value).map_err(one)? else { return Ok(found) };
        let mut raw = Raw::new(place.clone(), kind, value).map_err(one)?;
        if self.changes.iter().any(|change| change.is_of(kind)) {
            raw = self.change(raw)?;
        }
        objects::add(&mut found, raw).map_err(InputErrors::new)?;
        Ok(found)
    }

    fn change(&mut self, raw: Raw) -> Result<Raw, InputErrors> {
        let key = raw.key();
        self.changeable.entry(key.clone()).or_insert_with(|| raw.clone());
        let mut one = BTreeMap::from([(key, raw.clone())]);
        for (position, change) in self.changes.iter().enumerate().filter(|(_, change)| change.names(&raw)) {
            self.sentences.insert(change.apply(&mut one).map_err(|error| InputErrors::new(vec![error]))?);
            self.applied.insert(position);
        }
        Ok(one.into_values().next().unwrap_or(raw))
    }

    /// Returns a sentence for each change.
    ///
    /// # Errors
    /// Returns an error for each change whose object was not found.
    pub(crate) fn finish(mut self) -> Result<Vec<String>, InputErrors> {
        let left = self.changes.iter().enumerate().filter(|(position, _)| !self.applied.contains(position));
        let errors: Vec<_> = left.filter_map(|(_, change)| change.apply(&mut self.changeable).err()).collect();
        if errors.is_empty() { Ok(self.sentences.into_iter().collect()) } else { Err(InputErrors::new(errors)) }
    }
}
