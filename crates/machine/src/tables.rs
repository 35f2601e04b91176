//! TOML, read within limits, and written in nodeadm's format: sorted keys, every table with its own header, strings in single
//! quotes. The text is compared literally in caches and in users' expected files.

mod depth;

use std::fmt::Write as _;

use serde::de::Error as _;
use toml::de::Error;
use toml::{Table, Value};

/// Maximum number of bytes of a dotted path, which the writer repeats for each table.
const LONGEST_PATH: usize = 1024;

/// Parses a document. The parser limits brackets and each dotted key, but not the levels that both have together.
///
/// # Errors
/// Returns the error of the parser, or an error without a place for a document that exceeds a limit.
pub fn parse(text: &str) -> Result<Table, Error> {
    if depth::deepest(text) > depth::LIMIT {
        return Err(Error::custom(format!("more than {} levels of tables and lists; nest less deeply", depth::LIMIT)));
    }
    let table: Table = text.parse()?;
    if longest_path(&table) > LONGEST_PATH {
        return Err(Error::custom(format!("a path of keys has more than {LONGEST_PATH} bytes; write shorter keys")));
    }
    Ok(table)
}

/// Returns the bytes of the longest dotted path.
fn longest_path(table: &Table) -> usize {
    fn below(value: &Value) -> usize {
        match value {
            Value::Table(table) => longest_path(table),
            Value::Array(items) => items.iter().map(below).max().unwrap_or(0),
            _ => 0,
        }
    }
    table.iter().map(|(key, value)| key.len() + 1 + below(value)).max().unwrap_or(0)
}

/// Returns the text of a table.
#[must_use]
pub fn pretty(table: &Table) -> String {
    let mut text = String::new();
    write_table(&mut text, "", table);
    text
}

/// Writes values first and then tables. `path` is the table's own, dotted and quoted; empty for the document.
fn write_table(text: &mut String, path: &str, table: &Table) {
    let (tables, values): (Vec<_>, Vec<_>) = table.iter().partition(|(_, value)| is_section(value));
    for (key, value) in &values {
        let _ = writeln!(text, "{} = {}", quoted_key(key), inline(value));
    }
    for (index, (key, value)) in tables.into_iter().enumerate() {
        if index > 0 || !values.is_empty() {
            text.push('\n');
        }
        let key = quoted_key(key);
        write_section(text, &if path.is_empty() { key } else { format!("{path}.{key}") }, value);
    }
}

/// Reports whether a value has its own header: tables, and lists that contain only tables.
fn is_section(value: &Value) -> bool {
    match value {
        Value::Table(_) => true,
        Value::Array(items) => !items.is_empty() && items.iter().all(Value::is_table),
        _ => false,
    }
}

fn write_section(text: &mut String, path: &str, value: &Value) {
    match value {
        Value::Table(table) => {
            let _ = writeln!(text, "[{path}]");
            write_table(text, path, table);
        }
        Value::Array(items) => {
            for (index, table) in items.iter().filter_map(Value::as_table).enumerate() {
                let _ = writeln!(text, "{}[[{path}]]", if index > 0 { "\n" } else { "" });
                write_table(text, path, table);
            }
        }
        _ => {}
    }
}

/// Returns a value on one line.
fn inline(value: &Value) -> String {
    match value {
        Value::String(string) => quoted(string),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Table(table) => {
            let fields: Vec<String> =
                table.iter().map(|(key, value)| format!("{} = {}", quoted_key(key), inline(value))).collect();
            format!("{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

fn quoted_key(key: &str) -> String {
    let is_bare = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if is_bare { key.to_owned() } else { quoted(key) }
}

/// Returns the text in single quotes, which permit no escapes, or in double quotes if a character needs an escape.
fn quoted(text: &str) -> String {
    if !text.contains(|character: char| character == '\'' || character.is_control()) {
        return format!("'{text}'");
    }
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
