//! Errors in manifests: the problem, its place, and the fix.

use std::fmt;

use serde_json::Value;

/// Place of an object in the input.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Name of the file as given, `-` for standard input.
    pub file: String,
    /// Number of the document in the file, from 1; 0 for the whole file.
    pub document: usize,
    /// Number of the item in the document's List, from 1; each nested List adds a number.
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

/// One error in the input.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{}", in_one_line(&format!("{place}: {problem}; {cure}")))]
pub struct InputError {
    /// Place of the object.
    pub place: Place,
    /// Problem, with the object and the path of the field if there is one.
    pub problem: String,
    /// Fix.
    pub cure: String,
    /// Path of the field, such as `spec.weight`; empty for an error without a field.
    pub field: Box<str>,
}

impl InputError {
    pub(crate) fn new(place: &Place, problem: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { place: place.clone(), problem: problem.into(), cure: cure.into(), field: Box::default() }
    }
}

/// Returns the text as one terminal line. Line ends are escaped, because they would look like another message; other control
/// characters are escaped, because a terminal would execute them.
pub(crate) fn in_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() { line.extend(letter.escape_default()) } else { line.push(letter) }
    }
    line
}

/// All errors, sorted by place; never empty.
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

/// Returns the fix for a string that YAML reads as another type. The original text of `true` and `false` is unknown.
pub(crate) fn quoted(value: &Value) -> String {
    if value.is_boolean() { "write it in quotes".to_owned() } else { format!("write it in quotes: \"{value}\"") }
}
