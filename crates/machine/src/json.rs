//! JSON for files of a node: keys in order and four spaces deep, whatever features serde_json was built with, so
//! that the same value is always the same bytes.

use std::collections::BTreeMap;

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

/// Returns the same value with the keys of every object in order.
#[must_use]
pub fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<String, Value> = fields.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(fields.into_iter().collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// Returns the text of a value: keys in order, one field or element per line, four spaces deep, no line end at the end.
#[must_use]
pub fn pretty(value: &Value) -> String {
    let mut text = Vec::new();
    let mut printer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    "));
    // Writing a value with text keys into memory cannot fail.
    let _ = sorted(value.clone()).serialize(&mut printer);
    String::from_utf8(text).unwrap_or_default()
}
