//! Writer of YAML for people: blocks, one field or element per line. Supports only [`serde_json::Value`]; strings that YAML
//! could read as another type are quoted. The writer of serde-saphyr would add 0.03 MB to the agent.

use std::fmt::Write as _;

use serde_json::Value;

/// Plain words that some version of YAML reads as another type than a string.
const TAKEN: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];

/// Returns the text of a value; each line has a line end.
#[must_use]
pub fn text(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(_) | Value::Array(_) => block(&mut text, value, 0),
        scalar => line(&mut text, scalar),
    }
    text
}

/// Writes the value after a key or a dash.
fn inner(text: &mut String, value: &Value, depth: usize) {
    let is_block = match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        text.push('\n');
        block(text, value, depth + 1);
    } else {
        text.push(' ');
        line(text, value);
    }
}

fn block(text: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                let _ = write!(text, "{indent}{}:", scalar(key));
                inner(text, value, depth);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let _ = write!(text, "{indent}-");
                inner(text, item, depth);
            }
        }
        other => line(text, other),
    }
}

fn line(text: &mut String, value: &Value) {
    let _ = match value {
        Value::String(string) => writeln!(text, "{}", scalar(string)),
        other => writeln!(text, "{other}"),
    };
}

fn scalar(text: &str) -> String {
    let plain = text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|character| character.is_ascii_alphanumeric() || "._/-".contains(character))
        && !is_of_another_type(text);
    if plain { text.to_owned() } else { quoted(text) }
}

/// Reports whether some version of YAML reads a plain word as another type than a string.
#[must_use]
pub fn is_of_another_type(word: &str) -> bool {
    TAKEN.iter().any(|taken| word.eq_ignore_ascii_case(taken))
}

/// Returns a text in double quotes, in JSON's syntax, which YAML reads alike.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        let _ = match character {
            '"' | '\\' => write!(quoted, "\\{character}"),
            '\n' => write!(quoted, "\\n"),
            '\t' => write!(quoted, "\\t"),
            // Control characters, noncharacters and byte order marks are not permitted in plain YAML.
            '\u{feff}' | '\u{fffe}' | '\u{ffff}' | '\u{2028}' | '\u{2029}' => {
                write!(quoted, "\\u{:04x}", u32::from(character))
            }
            control if control.is_control() => write!(quoted, "\\u{:04x}", u32::from(control)),
            other => write!(quoted, "{other}"),
        };
    }
    quoted.push('"');
    quoted
}
