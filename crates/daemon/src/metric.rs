//! Table of metrics: each name exists once, with its unit, labels and help. The table registers, documents and renders the
//! metrics.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Metric of a daemon.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Exposed name; counters end in `_total`.
    pub name: &'static str,
    /// Counted or measured value, with the unit.
    pub help: &'static str,
    /// Kind of the metric.
    pub kind: Kind,
    /// Label names, in the order in which values are given.
    pub labels: &'static [&'static str],
}

/// Kind of a metric.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Value that only grows.
    Counter,
    /// Value that increases and decreases.
    Gauge,
    /// Observations, counted in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

type Labels = Vec<(&'static str, String)>;
type MakeHistogram = Box<dyn Fn() -> Histogram + Send + Sync>;

enum Series {
    Counter(Family<Labels, Counter<f64, AtomicU64>>),
    Gauge(Family<Labels, Gauge<f64, AtomicU64>>),
    Histogram(Family<Labels, Histogram, MakeHistogramFor>),
}

#[derive(Clone)]
struct MakeHistogramFor(std::sync::Arc<MakeHistogram>);

impl prometheus_client::metrics::family::MetricConstructor<Histogram> for MakeHistogramFor {
    fn new_metric(&self) -> Histogram {
        (self.0)()
    }
}

/// Current values of a table of metrics.
pub struct Metrics {
    registry: Registry,
    series: BTreeMap<&'static str, (Metric, Series)>,
}

impl Metrics {
    /// Registers every metric of the table.
    #[must_use]
    pub fn new(table: &[Metric]) -> Self {
        let mut registry = Registry::default();
        let series = table.iter().map(|metric| (metric.name, (*metric, register(&mut registry, metric)))).collect();
        Self { registry, series }
    }

    /// Adds to a counter.
    pub fn add(&self, metric: &Metric, labels: &[&str], amount: f64) {
        if let Some((metric, Series::Counter(family))) = self.series.get(metric.name) {
            family.get_or_create(&named(metric, labels)).inc_by(amount);
        }
    }

    /// Sets a gauge.
    pub fn set(&self, metric: &Metric, labels: &[&str], value: f64) {
        if let Some((metric, Series::Gauge(family))) = self.series.get(metric.name) {
            family.get_or_create(&named(metric, labels)).set(value);
        }
    }

    /// Records one observation of a histogram.
    pub fn observe(&self, metric: &Metric, labels: &[&str], value: f64) {
        if let Some((metric, Series::Histogram(family))) = self.series.get(metric.name) {
            family.get_or_create(&named(metric, labels)).observe(value);
        }
    }

    /// Removes one series, for an object that is gone.
    pub fn forget(&self, metric: &Metric, labels: &[&str]) {
        match self.series.get(metric.name) {
            Some((metric, Series::Counter(family))) => drop(family.remove(&named(metric, labels))),
            Some((metric, Series::Gauge(family))) => drop(family.remove(&named(metric, labels))),
            Some((metric, Series::Histogram(family))) => drop(family.remove(&named(metric, labels))),
            None => {}
        }
    }

    /// Returns the OpenMetrics text that Prometheus scrapes.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn named(metric: &Metric, values: &[&str]) -> Labels {
    metric.labels.iter().zip(values).map(|(name, value)| (*name, (*value).to_owned())).collect()
}

fn register(registry: &mut Registry, metric: &Metric) -> Series {
    match metric.kind {
        Kind::Counter => {
            let family = Family::default();
            // The library appends `_total` to counters.
            let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
            registry.register(name, metric.help, Family::clone(&family));
            Series::Counter(family)
        }
        Kind::Gauge => {
            let family = Family::default();
            registry.register(metric.name, metric.help, Family::clone(&family));
            Series::Gauge(family)
        }
        Kind::Histogram(bounds) => {
            let make: MakeHistogram = Box::new(move || Histogram::new(bounds.iter().copied()));
            let family = Family::new_with_constructor(MakeHistogramFor(std::sync::Arc::new(make)));
            registry.register(metric.name, metric.help, family.clone());
            Series::Histogram(family)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Kind, Metric, Metrics};

    const LAUNCHED: Metric = Metric {
        name: "karpenter_nodeclaims_created_total",
        help: "NodeClaims created",
        kind: Kind::Counter,
        labels: &["reason", "nodepool"],
    };
    const NODES: Metric =
        Metric { name: "karpenter_cluster_state_node_count", help: "Nodes", kind: Kind::Gauge, labels: &[] };

    #[test]
    fn render_contains_the_names_of_the_table() {
        let metrics = Metrics::new(&[LAUNCHED, NODES]);
        metrics.add(&LAUNCHED, &["provisioned", "default"], 2.0);
        metrics.set(&NODES, &[], 3.0);
        let text = metrics.render();
        assert!(
            text.contains(r#"karpenter_nodeclaims_created_total{reason="provisioned",nodepool="default"} 2.0"#),
            "{text}"
        );
        assert!(text.contains("karpenter_cluster_state_node_count{} 3.0"), "{text}");
    }

    #[test]
    fn forget_removes_the_series() {
        let metrics = Metrics::new(&[LAUNCHED]);
        metrics.add(&LAUNCHED, &["provisioned", "gone"], 1.0);
        metrics.forget(&LAUNCHED, &["provisioned", "gone"]);
        assert!(!metrics.render().contains("gone"));
    }
}
