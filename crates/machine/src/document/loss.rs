//! Content of a document that a reader with the rules of Go's `sigs.k8s.io/yaml` ignores: all but the last of repeated keys, and
//! all documents but the first.

use std::collections::BTreeMap;

use super::Place;
use super::tree::{Field, Kind, Node, Trail};
use crate::quote::quote;

/// Ignored content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// A key that a later one of the same mapping replaces.
    Key {
        /// Place of the ignored key.
        at: Place,
        /// Place of the key that counts.
        by: Place,
        /// Dotted path of the key, as a quotation.
        path: String,
    },
    /// A document after the first one.
    Document {
        /// Place of the document.
        at: Place,
    },
}

/// Maximum number of reported keys. One report is enough to refuse a document, and a person corrects them in turns.
const REPORTED: usize = 64;

/// Keeps the last of equal keys in each mapping. In JSON, an object that is repeated is merged over the earlier one.
pub(super) fn keep_last(root: &mut Node, is_json: bool, losses: &mut Vec<Loss>) {
    Pass { is_json, losses }.node(root, &Trail::ROOT);
}

struct Pass<'a> {
    is_json: bool,
    losses: &'a mut Vec<Loss>,
}

impl Pass<'_> {
    fn node(&mut self, node: &mut Node, trail: &Trail<'_>) {
        match &mut node.kind {
            Kind::Scalar(_) => {}
            Kind::List(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.node(item, &trail.item(index));
                }
            }
            Kind::Map(fields) => self.fields(fields, trail),
        }
    }

    fn fields(&mut self, fields: &mut Vec<Field>, trail: &Trail<'_>) {
        let mut kept: Vec<Field> = Vec::with_capacity(fields.len());
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for (key, value) in std::mem::take(fields) {
            match places.get(&key.text).and_then(|place| kept.get_mut(*place)) {
                Some(earlier) => self.replace(earlier, (key, value), trail),
                None => {
                    places.insert(key.text.clone(), kept.len());
                    kept.push((key, value));
                }
            }
        }
        for (key, value) in &mut kept {
            self.node(value, &trail.field(&key.text));
        }
        *fields = kept;
    }

    fn replace(&mut self, earlier: &mut Field, later: Field, trail: &Trail<'_>) {
        match (&mut earlier.1.kind, later.1.kind) {
            (Kind::Map(fields), Kind::Map(more)) if self.is_json => fields.extend(more),
            (_, kind) => {
                if self.losses.len() < REPORTED {
                    let path = quote(&trail.field(&later.0.text).path());
                    self.losses.push(Loss::Key { at: earlier.0.at, by: later.0.at, path });
                }
                *earlier = (later.0, Node { kind, ..later.1 });
            }
        }
    }
}
