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

    pub(super) fn extent(&self) -> Extent {
        let (inner, levels): (Vec<(usize, &Self)>, usize) = match &self.kind {
            Kind::Scalar(scalar) => return Extent { nodes: 1, bytes: scalar.text.len(), depth: 0 },
            Kind::List(items) => (items.iter().map(|item| (0, item)).collect(), 1),
            Kind::Map(fields) => (fields.iter().map(|(key, value)| (key.text.len(), value)).collect(), 1),
        };
        inner.into_iter().fold(Extent { nodes: 1, bytes: 0, depth: levels }, |sum, (name, node)| {
            let Extent { nodes, bytes, depth } = node.extent();
            Extent { nodes: sum.nodes + nodes, bytes: sum.bytes + name + bytes, depth: sum.depth.max(depth + 1) }
        })
    }
}

/// Size of a value with all below it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    /// Number of values.
    pub(super) nodes: usize,
    /// Bytes of names and scalars.
    pub(super) bytes: usize,
    /// Levels of lists and mappings; 0 for a scalar.
    pub(super) depth: usize,
}

/// Path of a value below its parents, without a copy of the path for each value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trail<'a> {
    parent: Option<&'a Self>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Item(usize),
}

impl<'a> Trail<'a> {
    /// Trail of the document itself.
    pub(crate) const ROOT: Self = Self { parent: None, step: Step::Root };

    pub(crate) fn field(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Field(name) }
    }

    pub(crate) fn item(&'a self, index: usize) -> Self {
        Self { parent: Some(self), step: Step::Item(index) }
    }

    /// Returns the dotted path, such as `spec.kubelet.flags[0]`; empty for the document.
    pub(crate) fn path(&self) -> String {
        let mut path = self.parent.map(Trail::path).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Field(name) => {
                path.push_str(if path.is_empty() { "" } else { "." });
                path.push_str(name);
            }
            Step::Item(index) => path.push_str(&format!("[{index}]")),
        }
        path
    }
}
