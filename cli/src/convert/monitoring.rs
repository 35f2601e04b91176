//! Prometheus rules and Grafana boards: metrics get their current names, and every metric and label in a query is compared with
//! those that Kerf exports. A rule that can never fire is an error; a panel without data is reported.

pub(super) mod board;
mod exported;
mod promql;
mod rename;
mod renamed;
pub(super) mod rules;

use std::collections::BTreeSet;

use exported::Series;
use promql::{Matcher, Query, Selector};

pub(super) use rename::metrics;

/// A finding about a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// Offset in the query, in bytes.
    pub(super) offset: usize,
    /// `true` if the query returns nothing because of it.
    pub(super) is_fatal: bool,
    pub(super) problem: String,
    pub(super) fix: String,
}

/// Labels that Prometheus adds to every series of a target.
const TARGET: [&str; 12] = [
    "__name__",
    "cluster",
    "container",
    "endpoint",
    "instance",
    "job",
    "namespace",
    "node",
    "pod",
    "prometheus",
    "prometheus_replica",
    "service",
];
/// Prefixes of the metrics of Karpenter and Kerf.
const OWN: [&str; 3] = ["karpenter_", "kerf_", "operator_"];
/// Prefix of labels of a metric that the target has too.
const EXPORTED: &str = "exported_";

/// Returns what prevents a query from seeing series of Kerf. `recorded` are the metrics that rules of the document record.
pub(super) fn findings(text: &str, recorded: &BTreeSet<String>) -> Vec<Finding> {
    let query = promql::read(text);
    let mut findings: Vec<Finding> =
        query.selectors.iter().flat_map(|selector| of_selector(selector, recorded)).collect();
    let is_ours = |selector: &Selector| exported::series(&selector.metric).is_some();
    // Series of other programs may have any label.
    if !query.selectors.is_empty() && query.selectors.iter().all(is_ours) {
        let unknown = query.groupings.iter().filter(|(label, _)| !query.may_have(label));
        findings.extend(
            unknown.map(|(label, offset)| Finding { is_fatal: false, ..missing_label(&query, label, *offset) }),
        );
    }
    findings
}

/// Returns labels of templates, such as `{{ $labels.node_name }}`, that no series of the query has.
pub(super) fn unknown_template_labels(text: &str, labels: impl IntoIterator<Item = String>) -> Vec<Finding> {
    let query = promql::read(text);
    let is_ours = |selector: &Selector| exported::series(&selector.metric).is_some();
    if query.selectors.is_empty() || !query.selectors.iter().all(is_ours) {
        return Vec::new();
    }
    let unknown = labels.into_iter().filter(|label| !query.may_have(label));
    unknown.map(|label| Finding { is_fatal: false, ..missing_label(&query, &label, 0) }).collect()
}

impl Query {
    /// Reports whether a series of the query may have a label.
    fn may_have(&self, label: &str) -> bool {
        let of_metric = |selector: &Selector| match exported::series(&selector.metric) {
            Some(Series::Exported(labels)) => has(&labels, label),
            _ => true,
        };
        TARGET.contains(&label)
            || self.strings.iter().any(|created| created == label)
            || self.selectors.iter().any(of_metric)
    }
}

fn has(labels: &[&str], label: &str) -> bool {
    labels.contains(&label) || label.strip_prefix(EXPORTED).is_some_and(|label| labels.contains(&label))
}

fn of_selector(selector: &Selector, recorded: &BTreeSet<String>) -> Vec<Finding> {
    let name = selector.metric.as_str();
    let fatal = |problem: String, fix: String| Finding { offset: selector.offset, is_fatal: true, problem, fix };
    if recorded.contains(name) {
        return Vec::new();
    }
    match exported::series(name) {
        Some(Series::Exported(labels)) => {
            selector.matchers.iter().filter_map(|matcher| of_matcher(name, &labels, matcher)).collect()
        }
        Some(Series::BareHistogram) => {
            let problem = format!("metric {name} is a histogram, and has no series of this name");
            vec![fatal(problem, format!("write histogram_quantile(0.99, sum by (le) (rate({name}_bucket[5m])))"))]
        }
        None if OWN.iter().any(|prefix| name.starts_with(prefix)) && is_of_karpenter(selector) => {
            vec![fatal(format!("metric {name} is not exported"), fix_of(name))]
        }
        None if renamed::LIBRARIES.iter().any(|prefix| name.starts_with(prefix)) && names_karpenter(selector) => {
            vec![fatal(format!("metric {name} of a Go library is not exported"), renamed::LIBRARY_FIX.to_owned())]
        }
        None => Vec::new(),
    }
}

/// Reports whether a metric belongs to Karpenter. Other operators export metrics named `operator_` too.
fn is_of_karpenter(selector: &Selector) -> bool {
    const KINDS: [&str; 6] = ["capacitybuffer", "ec2nodeclass", "node", "nodeclaim", "nodepool", "status"];
    let Some(rest) = selector.metric.strip_prefix("operator_") else { return true };
    let is_gone = renamed::GONE.iter().any(|(name, _)| *name == selector.metric);
    is_gone || KINDS.iter().any(|kind| rest.starts_with(&format!("{kind}_"))) || names_karpenter(selector)
}

/// Reports whether a selector selects series of Karpenter by the labels of the target.
fn names_karpenter(selector: &Selector) -> bool {
    selector
        .matchers
        .iter()
        .any(|matcher| TARGET.contains(&matcher.label.as_str()) && matcher.value.contains("karpenter"))
}

/// Returns the fix for a metric that is not exported.
fn fix_of(name: &str) -> String {
    let (base, _) = exported::split_suffix(name);
    let gone = renamed::GONE.iter().find(|(old, _)| *old == name || *old == base).map(|(_, fix)| (*fix).to_owned());
    let similar = || exported::similar(name).map(|similar| format!("did you mean {similar}?"));
    gone.or_else(similar).unwrap_or_else(|| "write a metric of docs/metrics.md, or delete the query".to_owned())
}

fn of_matcher(metric: &str, labels: &[&'static str], matcher: &Matcher) -> Option<Finding> {
    let label = matcher.label.as_str();
    if TARGET.contains(&label) || has(labels, label) {
        return None;
    }
    let is_known = exported::has_label(label) || renamed::LABELS.iter().any(|(known, _)| *known == label);
    let query =
        Query { selectors: vec![Selector { metric: metric.to_owned(), ..Selector::default() }], ..Query::default() };
    let is_fatal = is_known && !matcher.admits_absence();
    Some(Finding { is_fatal, ..missing_label(&query, label, matcher.offset) })
}

/// Returns the finding for a label that no series of the query has.
fn missing_label(query: &Query, label: &str, offset: usize) -> Finding {
    let names: Vec<&str> = query.selectors.iter().map(|selector| selector.metric.as_str()).collect();
    let labels: BTreeSet<&str> = names
        .iter()
        .filter_map(|name| match exported::series(name) {
            Some(Series::Exported(labels)) => Some(labels),
            _ => None,
        })
        .flatten()
        .collect();
    let labels: Vec<&str> = labels.into_iter().collect();
    let has = if labels.is_empty() { "it has none".to_owned() } else { format!("it has {}", labels.join(", ")) };
    let names: BTreeSet<&str> = names.into_iter().collect();
    let names: Vec<&str> = names.into_iter().collect();
    let problem = format!("no series of {} has label {label}, {has}", names.join(", "));
    let known = renamed::LABELS.iter().find(|(known, _)| *known == label).map(|(_, fix)| (*fix).to_owned());
    let fix = known.unwrap_or_else(|| "remove it, unless Prometheus adds the label to the target".to_owned());
    Finding { offset, is_fatal: false, problem, fix }
}

#[cfg(test)]
mod tests;
