//! JSON as the same tree, without places but with paths, so that types of both formats are compiled once.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::scalar::{Scalar, Style};
use super::tree::{Key, Kind, Node};
use super::{Fault, Place};

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        let number = |it: usize| u64::try_from(it).unwrap_or(u64::MAX);
        let said = error.to_string();
        let problem = said.split(" at line ").next().unwrap_or(&said);
        Self::new(Place { line: number(error.line()), column: number(error.column()) }, problem)
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(Shape)
    }
}

struct Shape;

fn node(kind: Kind) -> Node {
    Node { at: Place::default(), one_line: false, kind }
}

/// Returns a scalar. A value that is not a string is plain: its text defines its type, as in YAML.
fn scalar(text: String, plain: bool) -> Node {
    let style = if plain { Style::Plain } else { Style::Double };
    node(Kind::Scalar(Scalar { text, style }))
}

impl<'de> Visitor<'de> for Shape {
    type Value = Node;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::default())
    }

    fn visit_bool<E>(self, is: bool) -> Result<Node, E> {
        Ok(scalar(is.to_string(), true))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(scalar(number.to_string(), true))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(scalar(number.to_string(), true))
    }

    /// The debug format keeps a fraction, so that the text is not a whole number.
    fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
        Ok(scalar(format!("{number:?}"), true))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(scalar(text.to_owned(), false))
    }

    fn visit_string<E>(self, text: String) -> Result<Node, E> {
        Ok(scalar(text, false))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(node(Kind::List(items)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut fields = Vec::new();
        while let Some((text, value)) = map.next_entry()? {
            fields.push((Key { at: Place::default(), text }, value));
        }
        Ok(node(Kind::Map(fields)))
    }
}
