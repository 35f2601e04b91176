//! Typed metrics of a daemon.
//!
//! A metric is a constant [`Counter`], [`Gauge`] or [`Histogram`] with a struct of labels. A wrong kind, a missing label or two
//! labels in the wrong order do not compile. The table of a daemon lists the [`Description`] of each metric: the table
//! registers, documents and renders them.

mod summary;

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::{counter, gauge, histogram};
use prometheus_client::registry::Registry;
use summary::SummaryFamily;

/// Media type of [`Metrics::render`], without which Prometheus 3 refuses the text.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The labels of a metric, as a struct with one field per label.
pub trait Labels {
    /// Label names, in the order in which Prometheus shows them.
    const NAMES: &'static [&'static str];

    /// Returns the values, in the order of the names.
    fn values(&self) -> Vec<&str>;

    /// Returns names and values.
    fn pairs(&self) -> LabelPairs {
        Self::NAMES.iter().copied().zip(self.values().into_iter().map(str::to_owned)).collect()
    }
}

/// The labels of a metric with a single series.
#[derive(Clone, Copy, Debug)]
pub struct NoLabels;

impl Labels for NoLabels {
    const NAMES: &'static [&'static str] = &[];

    fn values(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// Defines structs of labels: `Name { label, field as "label" }`.
#[macro_export]
macro_rules! labels {
    ($($name:ident { $($field:ident $(as $label:literal)?),+ $(,)? })+) => {$(
        #[doc = concat!("Labels of a metric:" $(, " ", $crate::labels!(@name $field $($label)?))+, ".")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name<'a> {
            $(#[doc = concat!("Value of the label ", $crate::labels!(@name $field $($label)?), ".")] pub $field: &'a str,)+
        }

        impl $crate::metric::Labels for $name<'_> {
            const NAMES: &'static [&'static str] = &[$($crate::labels!(@name $field $($label)?)),+];

            fn values(&self) -> Vec<&str> {
                vec![$(self.$field),+]
            }
        }
    )+};
    (@name $field:ident) => {
        stringify!($field)
    };
    (@name $field:ident $label:literal) => {
        $label
    };
}

/// Defines a table of metrics: `table TABLE; NAME: Kind<Labels> = ("exposed_name", "help", buckets of a histogram);`.
#[macro_export]
macro_rules! metrics {
    (table $table:ident; $($name:ident: $kind:ident<$labels:ident> = ($metric:literal, $help:literal $(, $bounds:ident)? $(,)?);)+) => {
        $(#[doc = concat!($help, ".")] pub const $name: $kind<$labels> = $kind::new($metric, $help $(, $bounds)?);)+

        /// Every metric of this module.
        pub const $table: &[$crate::metric::Description] = &[$($name.description()),+];
    };
}

/// Name, help, kind and labels of a metric.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Exposed name; counters end in `_total`.
    pub name: &'static str,
    /// Meaning, with the unit.
    pub help: &'static str,
    /// Kind of the metric.
    pub kind: Kind,
    /// Label names, in order.
    pub labels: &'static [&'static str],
}

/// Kind of a metric.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Sum that only grows.
    Counter,
    /// Value that rises and falls.
    Gauge,
    /// Observations in buckets with these upper bounds.
    Histogram(&'static [f64]),
    /// Observations with these quantiles of the last ten minutes.
    Summary(&'static [f64]),
}

impl Kind {
    /// Returns the name of the kind in Prometheus' text format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
            Self::Summary(_) => "summary",
        }
    }
}

macro_rules! metric_types {
    ($($(#[$meta:meta])* $name:ident($($bounds:ident: $bounds_type:ty)?) $kind:expr;)+) => {$(
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $name<L> {
            description: Description,
            labels: PhantomData<fn() -> L>,
        }

        impl<L: Labels> $name<L> {
            /// Creates the metric with its name and help.
            #[must_use]
            pub const fn new(name: &'static str, help: &'static str $(, $bounds: $bounds_type)?) -> Self {
                Self { description: Description { name, help, kind: $kind, labels: L::NAMES }, labels: PhantomData }
            }

            /// Returns what the table of a daemon lists.
            #[must_use]
            pub const fn description(&self) -> Description {
                self.description
            }

            /// Returns the series with these labels.
            #[must_use]
            pub fn series(&self, labels: &L) -> Series {
                Series { name: self.description.name, labels: labels.pairs() }
            }
        }
    )+};
}

metric_types! {
    /// Metric that only grows.
    Counter() Kind::Counter;
    /// Metric that rises and falls.
    Gauge() Kind::Gauge;
    /// Metric that counts observations in buckets with these upper bounds.
    Histogram(bounds: &'static [f64]) Kind::Histogram(bounds);
}

/// Label names and values of one series.
pub type LabelPairs = Vec<(&'static str, String)>;

/// One series of a metric.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Series {
    /// Name of the metric.
    pub name: &'static str,
    /// Label names and values.
    pub labels: LabelPairs,
}

/// Series of one metric.
enum MetricFamily {
    Counter(Family<LabelPairs, counter::Counter<f64, AtomicU64>>),
    Gauge(Family<LabelPairs, gauge::Gauge<f64, AtomicU64>>),
    Histogram(Family<LabelPairs, histogram::Histogram, BucketBounds>),
    Summary(Mutex<SummaryFamily>),
}

/// Locks a family. A thread that panicked left it whole: each change is one call.
fn locked(family: &Mutex<SummaryFamily>) -> MutexGuard<'_, SummaryFamily> {
    family.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone)]
struct BucketBounds(Arc<[f64]>);

impl MetricConstructor<histogram::Histogram> for BucketBounds {
    fn new_metric(&self) -> histogram::Histogram {
        histogram::Histogram::new(self.0.iter().copied())
    }
}

/// The live values of a table of metrics.
pub struct Metrics {
    registry: Registry,
    families: BTreeMap<&'static str, MetricFamily>,
}

impl Metrics {
    /// Registers every metric of the table.
    #[must_use]
    pub fn new(table: &[Description]) -> Self {
        let mut registry = Registry::default();
        let families = table.iter().map(|metric| (metric.name, register(&mut registry, metric))).collect();
        Self { registry, families }
    }

    /// Adds to a counter.
    pub fn add<L: Labels>(&self, counter: &Counter<L>, labels: L, amount: f64) {
        self.add_to_series(&counter.series(&labels), amount);
    }

    /// Sets a gauge.
    pub fn set<L: Labels>(&self, gauge: &Gauge<L>, labels: L, value: f64) {
        self.set_series(&gauge.series(&labels), value);
    }

    /// Records one observation of a histogram, or of the summary that the table lists in its place.
    pub fn observe<L: Labels>(&self, histogram: &Histogram<L>, labels: L, value: f64) {
        self.observe_series(&histogram.series(&labels), value);
    }

    /// Adds to one series of a counter.
    pub fn add_to_series(&self, series: &Series, amount: f64) {
        if let Some(MetricFamily::Counter(family)) = self.families.get(series.name) {
            family.get_or_create(&series.labels).inc_by(amount);
        }
    }

    /// Sets one series of a gauge.
    pub fn set_series(&self, series: &Series, value: f64) {
        if let Some(MetricFamily::Gauge(family)) = self.families.get(series.name) {
            family.get_or_create(&series.labels).set(value);
        }
    }

    /// Records one observation in one series of a histogram or summary.
    pub fn observe_series(&self, series: &Series, value: f64) {
        match self.families.get(series.name) {
            Some(MetricFamily::Histogram(family)) => family.get_or_create(&series.labels).observe(value),
            Some(MetricFamily::Summary(family)) => locked(family).observe(&series.labels, value, Instant::now()),
            _ => {}
        }
    }

    /// Removes one series, after its object is gone.
    pub fn forget(&self, series: &Series) {
        match self.families.get(series.name) {
            Some(MetricFamily::Counter(family)) => drop(family.remove(&series.labels)),
            Some(MetricFamily::Gauge(family)) => drop(family.remove(&series.labels)),
            Some(MetricFamily::Histogram(family)) => drop(family.remove(&series.labels)),
            Some(MetricFamily::Summary(family)) => locked(family).forget(&series.labels),
            None => {}
        }
    }

    /// Returns Prometheus' text format, which all scrapers read.
    #[must_use]
    pub fn render(&self) -> String {
        let mut open_metrics = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut open_metrics, &self.registry);
        let mut text = prometheus_text(&open_metrics);
        // The library has no summaries.
        for family in self.families.values() {
            if let MetricFamily::Summary(family) = family {
                locked(family).render(&mut text, Instant::now());
            }
        }
        text
    }
}

/// Returns Prometheus' text format of OpenMetrics text. There, comments have the whole names of counters, and nothing marks the end.
fn prometheus_text(open_metrics: &str) -> String {
    let of_counter = |line: &str| {
        let name = line.strip_prefix("# TYPE ")?.strip_suffix(" counter")?;
        Some(name.to_owned())
    };
    let counters: BTreeSet<String> = open_metrics.lines().filter_map(of_counter).collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines().filter(|line| *line != "# EOF") {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", comment, name, rest] if counters.contains(name) => {
                text.push_str(&format!("# {comment} {name}_total {rest}"));
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

fn register(registry: &mut Registry, metric: &Description) -> MetricFamily {
    match metric.kind {
        Kind::Counter => {
            let family = Family::default();
            // The library appends `_total` to counters.
            let name = metric.name.strip_suffix("_total").unwrap_or(metric.name);
            registry.register(name, metric.help, Family::clone(&family));
            MetricFamily::Counter(family)
        }
        Kind::Gauge => {
            let family = Family::default();
            registry.register(metric.name, metric.help, Family::clone(&family));
            MetricFamily::Gauge(family)
        }
        Kind::Histogram(bounds) => {
            let family = Family::new_with_constructor(BucketBounds(bounds.into()));
            registry.register(metric.name, metric.help, family.clone());
            MetricFamily::Histogram(family)
        }
        Kind::Summary(quantiles) => MetricFamily::Summary(Mutex::new(SummaryFamily::new(*metric, quantiles))),
    }
}

#[cfg(test)]
mod tests {
    use super::{Counter, Description, Gauge, Histogram, Kind, Metrics, NoLabels};

    crate::labels! {
        ByReasonPool { reason, nodepool }
        ByType { kind as "type" }
    }

    crate::metrics! {
        table TABLE;
        CREATED: Counter<ByReasonPool> = ("karpenter_nodeclaims_created_total", "NodeClaims created");
        CONDITIONS: Gauge<ByType> = ("operator_status_condition_count", "Conditions");
        NODES: Gauge<NoLabels> = ("karpenter_cluster_state_node_count", "Nodes");
    }

    #[test]
    fn render_shows_names_labels_and_values() {
        let metrics = Metrics::new(TABLE);
        metrics.add(&CREATED, ByReasonPool { reason: "provisioned", nodepool: "default" }, 2.0);
        metrics.set(&CONDITIONS, ByType { kind: "Ready" }, 1.0);
        metrics.set(&NODES, NoLabels, 3.0);
        let text = metrics.render();
        for line in [
            r#"karpenter_nodeclaims_created_total{reason="provisioned",nodepool="default"} 2.0"#,
            r#"operator_status_condition_count{type="Ready"} 1.0"#,
            "karpenter_cluster_state_node_count{} 3.0",
            "# HELP karpenter_nodeclaims_created_total NodeClaims created.\n",
            "# TYPE karpenter_nodeclaims_created_total counter\n",
            "# TYPE karpenter_cluster_state_node_count gauge\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
        assert!(!text.contains("# EOF"), "{text}");
    }

    /// A table may list a histogram as a summary: the code that observes is the same.
    #[test]
    fn observe_fills_the_summary_in_place_of_a_histogram() {
        const WAIT: Histogram<NoLabels> = Histogram::new("wait_seconds", "Wait", &[1.0]);
        let table = [Description { kind: Kind::Summary(&[0.5]), ..WAIT.description() }];
        let metrics = Metrics::new(&table);
        metrics.observe(&WAIT, NoLabels, 3.0);
        let expected = "# HELP wait_seconds Wait.\n# TYPE wait_seconds summary\nwait_seconds{quantile=\"0.5\"} 3.0\n\
                        wait_seconds_sum{} 3.0\nwait_seconds_count{} 1\n";
        assert_eq!(metrics.render(), expected);
    }

    #[test]
    fn forget_removes_the_series() {
        let metrics = Metrics::new(TABLE);
        let labels = ByReasonPool { reason: "provisioned", nodepool: "gone" };
        metrics.add(&CREATED, labels, 1.0);
        metrics.forget(&CREATED.series(&labels));
        assert!(!metrics.render().contains("gone"));
    }
}
