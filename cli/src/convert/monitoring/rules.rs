//! Prometheus rules: the queries in a document, and what prevents them from firing.

use std::collections::BTreeSet;

use super::super::tree::{Node, NodeKind, Style};
use super::{Finding, findings, unknown_template_labels};

/// A finding with its place in the document.
pub(in crate::convert) struct Placed {
    /// Line in the file, from 1.
    pub(in crate::convert) line: usize,
    /// Name of the rule or panel.
    pub(in crate::convert) name: String,
    pub(in crate::convert) finding: Finding,
}

/// Reports whether a document contains Prometheus rules.
pub(in crate::convert) fn are_rules(root: &Node) -> bool {
    match root.text_at(&["kind"]) {
        "" => has_groups(root),
        "PrometheusRule" => root.get("spec").is_some_and(has_groups),
        _ => false,
    }
}

fn has_groups(node: &Node) -> bool {
    node.get("groups").is_some_and(|it| it.items().iter().any(|one| one.value.get("rules").is_some()))
}

/// Checks every rule of a document.
pub(in crate::convert) fn check(root: &Node) -> Vec<Placed> {
    let groups = root.get("spec").unwrap_or(root).get("groups").map(Node::items).unwrap_or_default();
    let rules: Vec<&Node> = groups
        .iter()
        .flat_map(|group| group.value.get("rules").map(Node::items).unwrap_or_default())
        .map(|rule| &rule.value)
        .collect();
    let recorded: BTreeSet<String> = rules.iter().map(|rule| rule.text_at(&["record"]).to_owned()).collect();
    rules.iter().flat_map(|rule| of_rule(rule, &recorded)).collect()
}

fn of_rule(rule: &Node, recorded: &BTreeSet<String>) -> Vec<Placed> {
    let Some(query) = rule.get("expr") else { return Vec::new() };
    let text = query.scalar().unwrap_or_default();
    let name = format!("rule {}", ["alert", "record"].map(|field| rule.text_at(&[field])).concat());
    let placed = |line: usize, finding: Finding| Placed { line, name: name.clone(), finding };
    let of_query =
        findings(text, recorded).into_iter().map(|finding| placed(line_at(query, text, finding.offset), finding));
    let mut all: Vec<Placed> = of_query.collect();
    for field in ["annotations", "labels"] {
        for entry in rule.get(field).map(Node::fields).unwrap_or_default() {
            let labels = template_labels(entry.value.scalar().unwrap_or_default());
            let unknown = unknown_template_labels(text, labels).into_iter();
            all.extend(unknown.map(|finding| placed(entry.value.line, finding)));
        }
    }
    all
}

/// Returns the line of an offset in a scalar. A block begins on the line after its field.
fn line_at(node: &Node, text: &str, offset: usize) -> usize {
    match node.kind {
        NodeKind::Scalar(_, Style::Block) => {
            node.line + 1 + text.get(..offset).unwrap_or_default().matches('\n').count()
        }
        _ => node.line,
    }
}

/// Returns the labels in a template: `$labels.a` and `.Labels.a`.
fn template_labels(text: &str) -> Vec<String> {
    let parts = [".Labels.", "$labels."].into_iter().flat_map(|mark| text.split(mark).skip(1));
    let name = |part: &str| {
        part.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').next().map(str::to_owned)
    };
    parts.filter_map(name).collect()
}
