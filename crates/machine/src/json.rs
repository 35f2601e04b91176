//! JSON for files of a node: sorted keys and an indentation of four spaces, independent of serde_json's features, so that equal
//! values give equal bytes.

use std::collections::BTreeMap;

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

/// Returns the same value with sorted keys in every object.
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

/// Returns the text of a value: sorted keys, one field or element per line, an indentation of four spaces, and no final line
/// end.
#[must_use]
pub fn pretty(value: &Value) -> String {
    let mut text = Vec::new();
    let mut printer = Serializer::with_formatter(&mut text, PrettyFormatter::with_indent(b"    "));
    // Writing a value with string keys into memory cannot fail.
    let _ = sorted(value.clone()).serialize(&mut printer);
    String::from_utf8(text).unwrap_or_default()
}
