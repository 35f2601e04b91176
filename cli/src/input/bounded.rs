//! YAML values within limits. The parser limits the levels that a text has, but not those that chains of aliases add, nor the
//! size of what aliases repeat.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Maximum number of levels of lists and mappings. Parsers call themselves once for each level.
const DEEPEST: usize = 80;
/// Maximum number of bytes of scalars that aliases add to a document.
const REPEATED: usize = 64 * 1024 * 1024;

/// End of the problem of a document that exceeds a limit.
pub(super) const EXCEEDED: &str = "with its aliases";

/// Message of the parser for a text with more levels than it reads at all.
pub(super) const TOO_DEEP: &str = "recursion limit exceeded";

/// Parses a document into a value.
pub(super) fn from_str(document: &str) -> Result<Value, serde_saphyr::Error> {
    // A cluster can have many objects, so their number is not limited. Levels and bytes are limited below.
    let budget = serde_saphyr::budget! {
        max_depth: usize::MAX,
        max_events: usize::MAX,
        max_aliases: usize::MAX,
        max_anchors: usize::MAX,
        max_nodes: usize::MAX,
        max_merge_keys: usize::MAX,
        max_total_scalar_bytes: usize::MAX,
        enforce_alias_anchor_ratio: false,
    };
    let options = serde_saphyr::options! { budget: budget };
    let room = Cell::new(document.len().saturating_add(REPEATED));
    let bounded = Bounded { levels: 0, room: &room };
    serde_saphyr::with_deserializer_from_str_with_options(document, options, |parser| bounded.deserialize(parser))
}

/// Reader of one value below so many levels.
#[derive(Clone, Copy)]
struct Bounded<'a> {
    levels: usize,
    /// Bytes of scalars that the document may still have.
    room: &'a Cell<usize>,
}

impl Bounded<'_> {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        let levels = self.levels + 1;
        let problem = || format!("more than {DEEPEST} levels of lists and mappings {EXCEEDED}");
        if levels > DEEPEST { Err(E::custom(problem())) } else { Ok(Self { levels, ..self }) }
    }

    fn text<E: Error>(self, text: String) -> Result<String, E> {
        let room = self.room.get().checked_sub(text.len());
        self.room.set(room.ok_or_else(|| E::custom(format!("the document is too large {EXCEEDED}")))?);
        Ok(text)
    }
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Value, D::Error> {
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, parser: D) -> Result<Value, D::Error> {
        self.deserialize(parser)
    }

    fn visit_bool<E>(self, is: bool) -> Result<Value, E> {
        Ok(Value::Bool(is))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        self.text(text).map(Value::String)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut fields = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(inner)?;
            fields.insert(self.text(key)?, value);
        }
        Ok(Value::Object(fields))
    }
}
