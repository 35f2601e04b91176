//! YAML and JSON reader. A document is parsed once into a tree with places, and from there into any type, so that an error
//! always has a place. Types are compiled against one small reader: a general library, compiled again for each type, was a
//! sixth of the agent. `kerf convert` reads the same tree with its styles and comments.

mod fields;
mod json;
mod loss;
mod reader;
mod scalar;
mod tree;
mod typed;

use std::fmt::{self, Display};

use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use fields::REPEATED;
pub use loss::Loss;
pub(crate) use reader::read_like_go;
pub use reader::read_with_comments;
pub use scalar::{Scalar, Style};
pub(crate) use tree::Trail;
pub use tree::{Comment, Key, Kind, Node};

/// Position in YAML, both from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Line.
    pub line: u64,
    /// Column, in characters.
    pub column: u64,
}

/// Error for a text that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(Box<Details>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    at: Option<Place>,
    field: String,
    problem: String,
}

/// Parses one YAML or JSON document.
///
/// # Errors
/// Returns a [`Fault`] with its place.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    typed(&reader::read_single(text)?)
}

/// Parses one JSON document.
///
/// # Errors
/// Returns a [`Fault`]: for invalid JSON with its place, for a wrong type with the field only.
pub fn read_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, Fault> {
    typed(&serde_json::from_slice(text)?)
}

/// Deserializes a document from its tree.
///
/// # Errors
/// Returns a [`Fault`], with its place if the tree has places.
pub fn typed<'a, T: Deserialize<'a>>(node: &'a Node) -> Result<T, Fault> {
    T::deserialize(node).map_err(|fault| fault.within("", node.at))
}

impl Fault {
    pub(crate) fn new(at: Place, problem: impl Into<String>) -> Self {
        Self(Box::new(Details { at: Some(at), field: String::new(), problem: problem.into() }))
    }

    fn unplaced(problem: String) -> Self {
        Self(Box::new(Details { at: None, field: String::new(), problem }))
    }

    /// Adds the parent `field` to the error. `at` is the place of the field; `field` is `[INDEX]` for an element of a list.
    fn within(mut self, field: &str, at: Place) -> Self {
        self.0.at.get_or_insert(at);
        let dot = if field.is_empty() || self.0.field.is_empty() || self.0.field.starts_with('[') { "" } else { "." };
        self.0.field = format!("{field}{dot}{}", self.0.field);
        self
    }

    /// Returns the place; zero if it is unknown.
    #[must_use]
    pub fn place(&self) -> Place {
        self.0.at.unwrap_or_default()
    }

    /// Returns the dotted path of the field; empty if the document itself cannot be parsed.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.0.field
    }

    /// Returns the problem.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.0.problem
    }
}

impl Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { line, column } = self.place();
        let (place, field) = (format!("line {line}, column {column}"), self.field().to_owned());
        let known = [(place, line > 0), (field, !self.field().is_empty())];
        let known: Vec<String> = known.into_iter().filter(|(_, is)| *is).map(|(text, _)| text).collect();
        let colon = if known.is_empty() { "" } else { ": " };
        write!(out, "{}{colon}{}", known.join(", "), self.problem())
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: Display>(problem: T) -> Self {
        Self::unplaced(problem.to_string())
    }
}
