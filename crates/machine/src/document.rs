//! YAML as people write it for a machine, and JSON as programs do: read once into a tree that knows its places, and from there into any
//! type, so that an error always says where, and so that types are compiled against one small reader: a general library, compiled anew
//! for each type, was a sixth of the agent.

mod json;
mod scalar;
mod tree;
mod typed;

use std::fmt::{self, Display};

use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(crate) use tree::Kind;
pub use tree::Node;

/// Where something stands in YAML, both from 1 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Line.
    pub line: u64,
    /// Column, in characters.
    pub column: u64,
}

/// Why a text could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(Box<Details>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    at: Option<Place>,
    field: String,
    problem: String,
}

/// Reads one YAML or JSON document.
///
/// # Errors
/// [`Fault`], with its place.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    typed(&Node::read(text)?)
}

/// Reads one JSON document.
///
/// # Errors
/// [`Fault`]: where it is no JSON, with its place; where it is of another type, with the field alone.
pub fn read_json<T: DeserializeOwned>(text: &[u8]) -> Result<T, Fault> {
    typed(&serde_json::from_slice(text)?)
}

/// Reads a document that is a tree already.
///
/// # Errors
/// [`Fault`], with its place where the tree has places.
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

    /// The same, seen from outside of `field`, which stands at `at` and is `[INDEX]` for an element of a list.
    fn within(mut self, field: &str, at: Place) -> Self {
        self.0.at.get_or_insert(at);
        let dot = if field.is_empty() || self.0.field.is_empty() || self.0.field.starts_with('[') { "" } else { "." };
        self.0.field = format!("{field}{dot}{}", self.0.field);
        self
    }

    /// Where; nought where nobody knows.
    #[must_use]
    pub fn place(&self) -> Place {
        self.0.at.unwrap_or_default()
    }

    /// Dotted path of the field; empty when the document itself cannot be read.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.0.field
    }

    /// What is wrong there.
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
