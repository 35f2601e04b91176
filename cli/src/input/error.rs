//! What is wrong with a manifest, where it stands, and how to mend it.

use std::fmt;

use serde_json::Value;

use super::Raw;
use super::kinds::Kind;

/// Where an object stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file as it was named, `-` for standard input.
    pub file: String,
    /// Which document of the file, from 1; 0 for the file as a whole.
    pub document: usize,
    /// Which item of the List in that document, from 1; Lists in Lists add a number each.
    pub items: Vec<usize>,
}

impl Place {
    pub(crate) fn document(file: &str, document: usize) -> Self {
        Self { file: file.to_owned(), document, items: Vec::new() }
    }

    pub(crate) fn item(&self, number: usize) -> Self {
        let mut place = self.clone();
        place.items.push(number);
        place
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(if self.file == "-" { "standard input" } else { &self.file })?;
        if self.document > 0 {
            write!(out, ", document {}", self.document)?;
        }
        self.items.iter().try_for_each(|item| write!(out, ", item {item}"))
    }
}

/// One thing that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{}", in_one_line(&format!("{place}: {problem}; {cure}")))]
pub struct InputError {
    /// Where.
    pub place: Place,
    /// What is wrong, with the object and the path of the field where there is one.
    pub problem: String,
    /// What to do about it.
    pub cure: String,
    /// The path of the field, such as `spec.weight`; empty where the fault is in none.
    pub field: Box<str>,
}

impl InputError {
    pub(crate) fn new(place: &Place, problem: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { place: place.clone(), problem: problem.into(), cure: cure.into(), field: Box::default() }
    }

    /// An error in one field of an object.
    pub(crate) fn field(raw: &Raw, path: &str, problem: &str, cure: impl Into<String>) -> Self {
        let Raw { place, kind, .. } = raw;
        let error = Self::new(place, format!("{kind} {}: {path}: {problem}", raw.full_name()), cure);
        Self { field: path.into(), ..error }
    }
}

/// The text as one line of a terminal, whatever someone's file or manifest put into it: line ends would look like the next sentence, and
/// other control characters are orders to the terminal.
pub(crate) fn in_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() { line.extend(letter.escape_default()) } else { line.push(letter) }
    }
    line
}

/// Everything that cannot be read, in the order of places; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InputErrors(pub Vec<InputError>);

impl InputErrors {
    pub(crate) fn new(mut errors: Vec<InputError>) -> Self {
        errors.sort();
        errors.dedup();
        Self(errors)
    }
}

impl fmt::Display for InputErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, error) in self.0.iter().enumerate() {
            if position > 0 {
                out.write_str("\n")?;
            }
            write!(out, "{error}")?;
        }
        Ok(())
    }
}

impl Raw {
    /// `namespace/name`, or the name of what has no namespace.
    pub(crate) fn full_name(&self) -> String {
        if self.namespace.is_empty() { self.name.clone() } else { format!("{}/{}", self.namespace, self.name) }
    }
}

/// A name that is no text, such as a bare `12` or `no`.
pub(crate) fn not_text(place: &Place, kind: Kind, value: &Value) -> Option<InputError> {
    let written = |field: &&str| !matches!(value["metadata"][*field], Value::Null | Value::String(_));
    let field = ["name", "namespace", "generateName"].into_iter().find(written)?;
    let said = &value["metadata"][field];
    let problem = format!("{kind}: metadata.{field}: {said} is not a string");
    Some(InputError::new(place, problem, quoted(said)))
}

/// How to write a text that YAML takes for something else. What stood for `true` or `false` nobody knows any more.
pub(crate) fn quoted(said: &Value) -> String {
    if said.is_boolean() { "write it in quotes".to_owned() } else { format!("write it in quotes: \"{said}\"") }
}

/// An object without a name.
pub(crate) fn nameless(raw: &Raw) -> InputError {
    InputError::new(&raw.place, format!("{}: metadata.name: missing", raw.kind), "set a name")
}

/// An object that stands elsewhere in other words.
pub(crate) fn twice(raw: &Raw, first: &Place) -> InputError {
    let problem = format!("{} {} is also in {first}, with other content", raw.kind, raw.full_name());
    InputError::new(&raw.place, problem, "remove one of them")
}
