//! Gauges that each scrape replaces as a whole, so that no series outlives its object.

use std::collections::BTreeSet;

use daemon::metric::{Description, Gauge, LabelPairs, Labels, Metrics, Series};
use parking_lot::Mutex;

/// One value of a gauge.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Series of the gauge.
    pub series: Series,
    /// Value in the unit of the gauge.
    pub value: f64,
}

impl Sample {
    /// Creates a sample with these labels.
    #[must_use]
    pub fn new<L: Labels>(gauge: &Gauge<L>, labels: L, value: f64) -> Self {
        Self { series: gauge.series(&labels), value }
    }

    /// Creates a sample of a metric whose labels depend on the detail.
    #[must_use]
    pub fn labelled(metric: Description, labels: LabelPairs, value: f64) -> Self {
        Self { series: Series { name: metric.name, labels }, value }
    }
}

/// Series of the last replacement.
#[derive(Debug, Default)]
pub struct GaugeSet(Mutex<BTreeSet<Series>>);

impl GaugeSet {
    /// Sets these samples, and removes the series of the last call that are not among them.
    pub fn replace(&self, metrics: &Metrics, samples: Vec<Sample>) {
        let mut current = self.0.lock();
        let mut former = std::mem::take(&mut *current);
        for Sample { series, value } in samples {
            metrics.set_series(&series, value);
            // Labels of a series that stays are kept once, not once per call.
            current.insert(former.take(&series).unwrap_or(series));
        }
        former.iter().for_each(|series| metrics.forget(series));
    }
}
