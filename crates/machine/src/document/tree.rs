//! A document as a tree in which each node has its place.

use super::Place;
use super::scalar::Scalar;

/// A field of a mapping.
pub(super) type Field = (Key, Node);

/// A value and its place: for an alias, the place of its use.
#[derive(Clone, Debug)]
pub struct Node {
    /// Place in the document.
    pub at: Place,
    /// `true` for a list such as `[a, b]` or a mapping such as `{a: b}` on one line.
    pub one_line: bool,
    /// The value itself.
    pub kind: Kind,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A string, a number, a boolean or null.
    Scalar(Scalar),
    /// Elements of a list.
    List(Vec<Node>),
    /// Fields in the order of the document; merged fields last.
    Map(Vec<(Key, Node)>),
}

/// Name of a field.
#[derive(Clone, Debug)]
pub struct Key {
    /// Place in the document.
    pub at: Place,
    /// Name without quotes.
    pub text: String,
}

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comment {
    /// Line, from 1.
    pub line: u64,
    /// Text after the number sign.
    pub text: String,
}

impl Default for Node {
    fn default() -> Self {
        Self::null(Place::default())
    }
}

impl Node {
    /// Returns the value of a field of a mapping.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&Self> {
        match &self.kind {
            Kind::Map(fields) => fields.iter().find(|(key, _)| key.text == field).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Returns the text of a nested field, such as `metadata`, `uid`, or an empty string.
    #[must_use]
    pub fn text_at(&self, path: &[&str]) -> &str {
        let found = path.iter().try_fold(self, |node, field| node.get(field));
        match found.map(|node| &node.kind) {
            Some(Kind::Scalar(scalar)) => &scalar.text,
            _ => "",
        }
    }

    /// Writes the numbers of this value and all below it as JSON writes what Go reads.
    pub(crate) fn convert_numbers_like_go(&mut self) {
        match &mut self.kind {
            Kind::Scalar(scalar) => scalar.as_go_number(),
            Kind::List(items) => items.iter_mut().for_each(Self::convert_numbers_like_go),
            Kind::Map(fields) => fields.iter_mut().for_each(|(_, value)| value.convert_numbers_like_go()),
        }
    }

    /// Returns the value of a nested field, to change it.
    pub(crate) fn at_mut(&mut self, path: &[&str]) -> Option<&mut Self> {
        path.iter().try_fold(self, |node, field| match &mut node.kind {
            Kind::Map(fields) => fields.iter_mut().find(|(key, _)| key.text == *field).map(|(_, value)| value),
            _ => None,
        })
    }

    pub(super) fn null(at: Place) -> Self {
        Self { at, one_line: false, kind: Kind::Scalar(Scalar::null()) }
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar(scalar) if scalar.is_null())
    }

    pub(super) fn size(&self) -> usize {
        1 + match &self.kind {
            Kind::Scalar(_) => 0,
            Kind::List(items) => items.iter().map(Self::size).sum(),
            Kind::Map(fields) => fields.iter().map(|(_, value)| value.size()).sum(),
        }
    }
}
