//! Reading of policy documents in IAM's JSON.

use serde_json::{Map, Value};
use thiserror::Error;

use super::condition::StatementCondition;
use super::pattern::Pattern;
use super::{PolicyStatement, Selection};

/// Elements of a statement of an identity policy.
const ELEMENTS: [&str; 7] = ["Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"];

/// An element that is no valid part of an identity policy.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{element}: {problem}")]
pub struct DocumentError {
    /// Path of the element, such as `Statement[0].Effect`.
    pub element: String,
    /// Problem and fix.
    pub problem: String,
}

fn wrong(element: impl Into<String>, problem: impl Into<String>) -> DocumentError {
    DocumentError { element: element.into(), problem: problem.into() }
}

/// Reads the statements of a document; `before` is the number of statements of earlier documents.
pub(super) fn statements(document: &Value, before: usize) -> Result<Vec<PolicyStatement>, DocumentError> {
    let single = std::slice::from_ref(&document["Statement"]);
    let all = document["Statement"].as_array().map_or(single, Vec::as_slice);
    all.iter().enumerate().map(|(index, value)| statement(value, index, before + index + 1)).collect()
}

fn statement(value: &Value, index: usize, number: usize) -> Result<PolicyStatement, DocumentError> {
    let path = format!("Statement[{index}]");
    let Some(fields) = value.as_object() else {
        return Err(wrong(path, "a policy document has an object, or a list of objects"));
    };
    if let Some(unknown) = fields.keys().find(|key| !ELEMENTS.contains(&key.as_str())) {
        return Err(wrong(format!("{path}.{unknown}"), format!("a policy of a role has only {}", ELEMENTS.join(", "))));
    }
    let allows = match fields.get("Effect").and_then(Value::as_str) {
        Some("Allow") => true,
        Some("Deny") => false,
        _ => return Err(wrong(format!("{path}.Effect"), "use Allow or Deny")),
    };
    let sid = fields.get("Sid").and_then(Value::as_str).filter(|sid| !sid.is_empty());
    Ok(PolicyStatement {
        name: sid.map_or_else(|| number.to_string(), str::to_owned),
        allows,
        actions: selection(fields, "Action", &path)?,
        resources: selection(fields, "Resource", &path)?,
        conditions: conditions(fields.get("Condition"), &path)?,
    })
}

/// Reads an element or its inversion, of which a statement has exactly one.
fn selection(fields: &Map<String, Value>, name: &str, path: &str) -> Result<Selection, DocumentError> {
    let inverted = format!("Not{name}");
    let (key, value) = match (fields.get(name), fields.get(&inverted)) {
        (Some(value), None) => (name, value),
        (None, Some(value)) => (inverted.as_str(), value),
        _ => return Err(wrong(format!("{path}.{name}"), format!("use one of {name} and {inverted}"))),
    };
    let texts = texts(value).ok_or_else(|| wrong(format!("{path}.{key}"), "use a string, or a list of strings"))?;
    let patterns = texts.iter().map(|text| Pattern::new(text)).collect();
    Ok(Selection { patterns, inverted: key == inverted })
}

fn conditions(block: Option<&Value>, path: &str) -> Result<Vec<StatementCondition>, DocumentError> {
    let Some(block) = block else { return Ok(Vec::new()) };
    let object = |value: &Value, path: &str| {
        value.as_object().cloned().ok_or_else(|| wrong(path, "use an object of operators, each with keys and values"))
    };
    let path = format!("{path}.Condition");
    let mut conditions = Vec::new();
    for (operator, keys) in object(block, &path)? {
        let path = format!("{path}.{operator}");
        for (key, value) in object(&keys, &path)? {
            let values = texts(&value)
                .ok_or_else(|| wrong(format!("{path}.{key}"), "use a string, or a list of strings"))?
                .iter()
                .map(|text| Pattern::new(text))
                .collect();
            conditions.push(StatementCondition::new(&operator, &key, values));
        }
    }
    Ok(conditions)
}

/// Returns the strings of a value; truth values and numbers count as their text, as in IAM.
fn texts(value: &Value) -> Option<Vec<String>> {
    let one = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    };
    match value {
        Value::Array(values) => values.iter().map(one).collect(),
        value => one(value).map(|text| vec![text]),
    }
}
