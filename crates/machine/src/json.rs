//! JSON as a node's files want it: keys in order and four spaces deep, whatever features serde_json was built with, so
//! that the same value is always the same bytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

/// The same value with the keys of every object in order.
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

/// The text of a value: keys in order, one field or element a line, four spaces deep, no line end at the end.
#[must_use]
pub fn pretty(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0);
    text
}

fn write(text: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let mut in_order = BTreeMap::new();
            in_order.extend(fields);
            let fields = in_order.into_iter().map(|(key, value)| (Some(key), value));
            lines(text, ['{', '}'], fields, depth);
        }
        Value::Array(items) if !items.is_empty() => {
            lines(text, ['[', ']'], items.iter().map(|item| (None, item)), depth);
        }
        scalar => {
            let _ = write!(text, "{scalar}");
        }
    }
}

fn lines<'a>(
    text: &mut String,
    [open, close]: [char; 2],
    values: impl Iterator<Item = (Option<&'a String>, &'a Value)>,
    depth: usize,
) {
    let indent = "    ".repeat(depth + 1);
    text.push(open);
    for (index, (key, value)) in values.enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&indent);
        if let Some(key) = key {
            let _ = write!(text, "{}: ", Value::from(key.as_str()));
        }
        write(text, value, depth + 1);
    }
    text.push('\n');
    text.push_str(&"    ".repeat(depth));
    text.push(close);
}
