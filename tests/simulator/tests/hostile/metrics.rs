//! Series of a scrape of the leader.

use std::sync::Arc;

use api::NodeClaim;
use controller::capacity::offerings::Offerings;
use controller::metrics::collector::{CatalogueSource, ClusterMetrics};
use controller::metrics::detail::MetricsDetail;
use controller::metrics::gauge_set::GaugeSet;
use controller::metrics::node_conditions::NodeConditionMetrics;
use controller::reconcile::usage;
use daemon::metric::Metrics;
use jiff::Timestamp;
use planner::Catalogue;
use simulator::controller_run::ControllerRun;

struct Known<'a>(&'a Offerings, Timestamp);

impl CatalogueSource for Known<'_> {
    fn catalogue_of_claim(&self, claim: &NodeClaim) -> Option<Arc<Catalogue>> {
        self.0.catalogue_of(claim, self.1)
    }

    fn catalogue_of_class(&self, class: &str) -> Option<Arc<Catalogue>> {
        self.0.catalogue(class, self.1)
    }
}

/// Metrics that a scrape computes.
pub struct Scraper {
    conditions: NodeConditionMetrics,
    usage: GaugeSet,
    cluster: ClusterMetrics,
}

impl Scraper {
    pub fn new(now: Timestamp) -> Self {
        let cluster = ClusterMetrics::new(MetricsDetail::Aggregated, true, now);
        Self { conditions: NodeConditionMetrics::default(), usage: GaugeSet::default(), cluster }
    }

    /// Returns the number of series.
    pub fn scrape(&self, run: &ControllerRun, now: Timestamp) -> usize {
        let metrics: &Metrics = run.metrics_table();
        let samples = run.cluster.read(|index| {
            self.conditions.count(index.nodes.values().map(AsRef::as_ref), metrics);
            self.usage.replace(metrics, usage::samples(index, now));
            self.cluster.observe(index, &run.cluster.decisions, &Known(&run.offerings, now), metrics, now)
        });
        self.cluster.publish(metrics, samples);
        run.metrics().lines().filter(|line| !line.starts_with('#')).count()
    }
}
