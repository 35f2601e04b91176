//! Responses of the ports for probes and metrics.

use std::sync::{Arc, OnceLock};

use api::NodeClaim;
use daemon::admin::Admin;
use daemon::metric::{Metrics, NoLabels};
use jiff::Timestamp;

use super::health;
use crate::capacity::offerings::Offerings;
use crate::lease::Leading;
use crate::metrics;
use crate::metrics::collector::{CatalogueSource, ClusterMetrics};
use crate::metrics::gauge_set::{GaugeSet, Sample};
use crate::metrics::node_conditions::NodeConditionMetrics;
use crate::metrics::process_usage::ProcessUsage;
use crate::reconcile::usage;
use crate::settings::Settings;
use crate::state::cluster::Cluster;
use crate::state::index::Index;

/// State that health, readiness and metrics are computed from.
pub(super) struct Probes {
    cluster: Arc<Cluster>,
    metrics: Arc<Metrics>,
    leading: Leading,
    /// Offerings, set once they exist; the source of prices.
    pub(super) offerings: Arc<OnceLock<Arc<Offerings>>>,
    started: Timestamp,
    reexport: NodeConditionMetrics,
    usage: GaugeSet,
    progress: GaugeSet,
    watches: GaugeSet,
    fleet: ClusterMetrics,
    process: ProcessUsage,
}

impl Probes {
    pub(super) fn new(settings: &Settings, cluster: &Arc<Cluster>, metrics: &Arc<Metrics>, leading: &Leading) -> Self {
        let started = cluster.now();
        let architecture = match std::env::consts::ARCH {
            "x86_64" => api::label::ARCH_AMD64,
            "aarch64" => api::label::ARCH_ARM64,
            other => other,
        };
        metrics.set(
            &metrics::BUILD_INFO,
            metrics::BuildLabels {
                version: env!("CARGO_PKG_VERSION"),
                goversion: "",
                goarch: architecture,
                commit: "",
            },
            1.0,
        );
        Self {
            cluster: Arc::clone(cluster),
            metrics: Arc::clone(metrics),
            leading: leading.clone(),
            offerings: Arc::default(),
            started,
            reexport: NodeConditionMetrics::default(),
            usage: GaugeSet::default(),
            progress: GaugeSet::default(),
            watches: GaugeSet::default(),
            fleet: ClusterMetrics::new(settings.metrics_detail, settings.exports_cluster_state, started)
                .with_cost_label(settings.cost_label.clone()),
            process: ProcessUsage::new(started),
        }
    }

    /// Exports the metrics that are summed over replicas, and returns the gauges of the cluster; called only by the leader.
    fn export_metrics(&self, index: &Index, now: Timestamp) -> Vec<Sample> {
        self.reexport.count(index.nodes.values().map(AsRef::as_ref), &self.metrics);
        self.usage.replace(&self.metrics, usage::samples(index, now));
        self.progress.replace(&self.metrics, self.cluster.progress.samples(now));
        let catalogues = KnownCatalogues { offerings: self.offerings.get(), now };
        self.fleet.observe(index, &self.cluster.decisions, &catalogues, &self.metrics, now)
    }
}

/// Catalogues at one moment; none before the offerings exist.
struct KnownCatalogues<'a> {
    offerings: Option<&'a Arc<Offerings>>,
    now: Timestamp,
}

impl CatalogueSource for KnownCatalogues<'_> {
    fn catalogue_of_claim(&self, claim: &NodeClaim) -> Option<Arc<planner::Catalogue>> {
        self.offerings?.catalogue_of(claim, self.now)
    }

    fn catalogue_of_class(&self, class: &str) -> Option<Arc<planner::Catalogue>> {
        self.offerings?.catalogue(class, self.now)
    }
}

impl Admin for Probes {
    fn healthy(&self) -> Result<(), String> {
        health::stalled(&self.cluster, self.leading.is_held()).map_or(Ok(()), Err)
    }

    fn ready(&self) -> Result<(), String> {
        let missing = self.cluster.read(Index::missing);
        if missing.is_empty() { Ok(()) } else { Err(format!("not listed yet: {}", missing.join(", "))) }
    }

    fn metrics(&self) -> String {
        let (synced, now) = (self.cluster.read(Index::is_synced), self.cluster.now());
        self.metrics.set(&metrics::SYNCED, NoLabels, f64::from(u8::from(synced)));
        let unsynced = if synced { 0.0 } else { now.duration_since(self.started).as_secs_f64() };
        self.metrics.set(&metrics::UNSYNCED_TIME, NoLabels, unsynced);
        self.watches.replace(&self.metrics, self.cluster.view_ages.samples(now));
        let max_age = self.cluster.view_ages.max_age().as_secs_f64();
        self.metrics.set(&metrics::WATCH_MAX_AGE, NoLabels, max_age);
        self.metrics.add(&metrics::EVENTS_DROPPED, NoLabels, self.cluster.notes.take_dropped() as f64);
        self.process.export(&self.metrics);
        if self.leading.is_held() {
            // Changes of the index wait only for the samples, not for the export of thousands of series.
            let samples = self.cluster.read(|index| self.export_metrics(index, now));
            self.fleet.publish(&self.metrics, samples);
        } else {
            // The leader exports them.
            self.cluster.read(|index| drop(index.turns.take()));
        }
        self.metrics.render()
    }
}
