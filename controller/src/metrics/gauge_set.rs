//! Gauges that are reported anew as a whole, at each scrape: what is not said any more is forgotten, so that no series outlives its thing.

use std::collections::BTreeMap;

use daemon::metric::{Metric, Metrics};
use parking_lot::Mutex;

/// One value of a gauge.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Of which gauge.
    pub metric: &'static Metric,
    /// Values of its labels, in its order.
    pub labels: Vec<String>,
    /// The value, in the gauge's unit.
    pub value: f64,
}

impl Sample {
    /// A sample with these labels.
    #[must_use]
    pub fn new(metric: &'static Metric, labels: &[&str], value: f64) -> Self {
        Self { metric, labels: labels.iter().map(|label| (*label).to_owned()).collect(), value }
    }
}

/// Remembers which series were reported last.
#[derive(Debug, Default)]
pub struct GaugeSet(Mutex<BTreeMap<(&'static str, Vec<String>), &'static Metric>>);

impl GaugeSet {
    /// Says these, and forgets what was said before and is not among them.
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
