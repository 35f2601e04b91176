//! YAML as people write it for a machine: read once into a tree that knows its places, and from there into any type, so that an error
//! always says line, column and field, and so that types are compiled against one small reader: a general library, compiled anew
//! for each type, was a sixth of the agent.

mod scalar;
mod tree;
mod typed;

use std::fmt::{self, Display};

use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(crate) use tree::{Kind, Node};

/// Where something stands, both from 1 on.
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

/// Reads a document that is a tree already.
pub(crate) fn typed<'a, T: Deserialize<'a>>(node: &'a Node) -> Result<T, Fault> {
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

    /// Where; the first character where nobody knows.
    #[must_use]
    pub fn place(&self) -> Place {
        self.0.at.unwrap_or(Place { line: 1, column: 1 })
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
        let comma = if self.field().is_empty() { "" } else { ", " };
        write!(out, "line {line}, column {column}{comma}{}: {}", self.field(), self.problem())
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: Display>(problem: T) -> Self {
        Self::unplaced(problem.to_string())
    }
}
