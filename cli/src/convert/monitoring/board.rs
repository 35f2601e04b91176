//! Grafana boards: the queries of panels and variables, and what prevents them from showing data.

use std::collections::BTreeSet;

use serde_json::Value;

use super::rules::Placed;
use super::{Finding, findings, unknown_template_labels};

/// Returns a text as a board; `None` for any other text.
pub(in crate::convert) fn read(text: &str) -> Option<Value> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let value: Value = serde_json::from_str(text).ok()?;
    let board = value.get("dashboard").unwrap_or(&value);
    let is_board = ["panels", "rows"].iter().any(|key| board[*key].is_array()) && board.get("apiVersion").is_none();
    is_board.then_some(value)
}

/// Checks every query of a board, whose text begins on line `first` of the file.
pub(in crate::convert) fn check(board: &Value, text: &str, first: usize) -> Vec<Placed> {
    let mut queries = Vec::new();
    collect(board, "", &mut queries);
    let placed = |query: &Located| {
        let line = first + line_of(text, &query.text);
        let name = query.name.clone();
        query
            .findings()
            .into_iter()
            .map(move |finding| Placed { line, name: name.clone(), finding })
            .collect::<Vec<_>>()
    };
    queries.iter().flat_map(placed).collect()
}

/// A query with the panel or variable that it belongs to.
struct Located {
    name: String,
    text: String,
    /// Labels that are shown or listed.
    labels: Vec<String>,
}

impl Located {
    fn findings(&self) -> Vec<Finding> {
        let nothing_recorded = BTreeSet::new();
        let mut found = findings(&self.text, &nothing_recorded);
        found.extend(unknown_template_labels(&self.text, self.labels.iter().cloned()));
        found
    }
}

/// Collects the queries of a part of a board; `title` is that of the nearest panel.
fn collect(value: &Value, title: &str, into: &mut Vec<Located>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, title, into)),
        Value::Object(fields) => {
            let title = value["title"].as_str().filter(|own| !own.is_empty()).unwrap_or(title);
            if let Some(query) = value["expr"].as_str() {
                let labels = legend_labels(value["legendFormat"].as_str().unwrap_or_default());
                into.push(Located { name: format!("panel {title:?}"), text: query.to_owned(), labels });
            }
            for (key, inner) in fields {
                if key == "templating" { variables(inner, into) } else { collect(inner, title, into) }
            }
        }
        _ => {}
    }
}

/// Collects the queries of a board's variables.
fn variables(templating: &Value, into: &mut Vec<Located>) {
    for variable in templating["list"].as_array().into_iter().flatten() {
        let query = variable["query"].as_str().or_else(|| variable["query"]["query"].as_str()).unwrap_or_default();
        let name = format!("variable {}", variable["name"].as_str().unwrap_or_default());
        if let Some((text, label)) = label_values(query) {
            into.push(Located { name, text: text.to_owned(), labels: vec![label.to_owned()] });
        } else if let Some(text) = call(query, "query_result") {
            into.push(Located { name, text: text.to_owned(), labels: Vec::new() });
        }
    }
}

/// Returns the query and the label of `label_values(query, label)`.
fn label_values(query: &str) -> Option<(&str, &str)> {
    let (text, label) = call(query, "label_values")?.rsplit_once(',')?;
    Some((text.trim(), label.trim()))
}

/// Returns the arguments of a function's call.
fn call<'a>(text: &'a str, function: &str) -> Option<&'a str> {
    text.trim().strip_prefix(function)?.trim().strip_prefix('(')?.strip_suffix(')')
}

/// Returns the labels in a legend, `{{a}} {{ b }}`.
fn legend_labels(legend: &str) -> Vec<String> {
    let inner = |part: &str| part.split_once("}}").map(|(label, _)| label.trim().to_owned());
    legend.split("{{").skip(1).filter_map(inner).filter(|label| !label.is_empty()).collect()
}

/// Returns the number of lines before a query in the text of a board, where it is a JSON string.
fn line_of(text: &str, query: &str) -> usize {
    let written = serde_json::to_string(query).unwrap_or_default();
    let inner = written.trim_matches('"');
    text.find(inner).map_or(0, |at| text[..at].matches('\n').count())
}
