//! Gauges that are replaced as a whole at each scrape. Series that are no longer reported disappear, so that no series outlives
//! its object.

use std::collections::BTreeMap;

use daemon::metric::{Metric, Metrics};
use parking_lot::Mutex;

/// One value of a gauge.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Gauge of the value.
    pub metric: &'static Metric,
    /// Label values, in the order of the gauge's labels.
    pub labels: Vec<String>,
    /// Value in the unit of the gauge.
    pub value: f64,
}

impl Sample {
    /// Creates a sample with these labels.
    #[must_use]
    pub fn new(metric: &'static Metric, labels: &[&str], value: f64) -> Self {
        Self { metric, labels: labels.iter().map(|label| (*label).to_owned()).collect(), value }
    }
}

/// Gauges with the series of the last scrape.
#[derive(Debug, Default)]
pub struct GaugeSet(Mutex<BTreeMap<(&'static str, Vec<String>), &'static Metric>>);

impl GaugeSet {
    /// Sets these samples and removes earlier series that are not among them.
    pub fn replace(&self, metrics: &Metrics, samples: Vec<Sample>) {
        let mut told = self.0.lock();
        let mut former = std::mem::take(&mut *told);
        for Sample { metric, labels, value } in samples {
            metrics.set(metric, &as_strs(&labels), value);
            former.remove(&(metric.name, labels.clone()));
            told.insert((metric.name, labels), metric);
        }
        for ((_, labels), metric) in former {
            metrics.forget(metric, &as_strs(&labels));
        }
    }
}

fn as_strs(labels: &[String]) -> Vec<&str> {
    labels.iter().map(String::as_str).collect()
}
