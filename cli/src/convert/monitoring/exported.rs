//! Metrics of the controller and of the agent. Tests of both write the lists from the tables by which the metrics are registered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// Lines of name, kind and labels of the controller's metrics.
const CONTROLLER: &str = include_str!("controller.csv");
/// The same for the agent.
const AGENT: &str = include_str!("agent.csv");
/// Suffixes of the series of a histogram.
const SUFFIXES: [&str; 3] = ["_bucket", "_sum", "_count"];

/// An exported metric.
pub(super) struct Metric {
    pub(super) is_histogram: bool,
    pub(super) labels: Vec<&'static str>,
}

/// Series of a metric, by the name in a query.
pub(super) enum Series {
    /// Series of a metric, with their labels.
    Exported(Vec<&'static str>),
    /// Name of a histogram, which has no series without a suffix.
    BareHistogram,
}

fn metrics() -> &'static BTreeMap<&'static str, Metric> {
    static METRICS: OnceLock<BTreeMap<&str, Metric>> = OnceLock::new();
    METRICS.get_or_init(|| {
        let line = |line: &'static str| {
            let (name, rest) = line.split_once(',').unwrap_or((line, ""));
            let (kind, labels) = rest.split_once(',').unwrap_or((rest, ""));
            let labels = labels.split(' ').filter(|label| !label.is_empty()).collect();
            (name, Metric { is_histogram: kind == "histogram", labels })
        };
        CONTROLLER.lines().chain(AGENT.lines()).map(line).collect()
    })
}

/// Returns the series of a name; `None` if no metric has it.
pub(super) fn series(name: &str) -> Option<Series> {
    if let Some(metric) = metrics().get(name) {
        let labels = metric.labels.clone();
        return Some(if metric.is_histogram { Series::BareHistogram } else { Series::Exported(labels) });
    }
    let (base, suffix) = SUFFIXES.iter().find_map(|suffix| Some((name.strip_suffix(suffix)?, *suffix)))?;
    let metric = metrics().get(base).filter(|metric| metric.is_histogram)?;
    let bucket = (suffix == SUFFIXES[0]).then_some("le");
    Some(Series::Exported(metric.labels.iter().copied().chain(bucket).collect()))
}

/// Reports whether a metric is a histogram.
pub(super) fn is_histogram(name: &str) -> bool {
    metrics().get(name).is_some_and(|metric| metric.is_histogram)
}

/// Returns a name without the suffix of a histogram's series, and that suffix.
pub(super) fn split_suffix(name: &str) -> (&str, &'static str) {
    let split = SUFFIXES.iter().find_map(|suffix| Some((name.strip_suffix(suffix)?, *suffix)));
    split.unwrap_or((name, ""))
}

/// Reports whether any metric has a label.
pub(super) fn has_label(label: &str) -> bool {
    static LABELS: OnceLock<BTreeSet<&str>> = OnceLock::new();
    let all = LABELS.get_or_init(|| metrics().values().flat_map(|metric| metric.labels.iter().copied()).collect());
    all.contains(label)
}

/// Returns the name of a metric that is similar to this one.
pub(super) fn similar(name: &str) -> Option<&'static str> {
    let known: Vec<&'static str> = metrics().keys().copied().collect();
    api::similar::nearest(name, &known)
}
