//! Storage of the decision log in ConfigMaps, by the leader. A restart or a change of the leader loses at most the decisions of the
//! last seconds.

mod segments;

use std::sync::Arc;
use std::time::Duration;

use api::decisions::storage::{DECISIONS, Ring, SUMMARIES};
use api::{NodeClaim, label};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::capacity::offerings::Offerings;
use crate::lease::Leading;
use crate::state::cluster::Cluster;
use crate::state::index::Index;
use segments::Segments;

/// Interval between two writes.
const INTERVAL: Duration = Duration::from_secs(15);
/// Time limit of the last write, when the process ends.
const LAST_WRITE: Duration = Duration::from_secs(5);
/// Field manager of the writes.
const MANAGER: &str = "kerf-decisions";

/// Storage of the decision log.
pub struct DecisionStore {
    cluster: Arc<Cluster>,
    offerings: Arc<Offerings>,
    leading: Leading,
    stored: Mutex<[StoredRing; 2]>,
}

impl DecisionStore {
    /// Creates the storage in the controller's namespace. The first write reads what an earlier process stored.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: &str,
        cluster: Arc<Cluster>,
        offerings: Arc<Offerings>,
        leading: Leading,
    ) -> Arc<Self> {
        let api: Api<ConfigMap> = Api::namespaced(client, namespace);
        let stored = Mutex::new([StoredRing::new(api.clone(), DECISIONS), StoredRing::new(api, SUMMARIES)]);
        Arc::new(Self { cluster, offerings, leading, stored })
    }

    /// Stores new records forever.
    pub async fn run(self: Arc<Self>) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            if self.cluster.read(Index::is_synced) {
                self.store(false).await;
            }
        }
    }

    /// Returns the price of a NodeClaim's node, with its volumes, addresses and the fee of its NodePool.
    fn price(&self, index: &Index, claim: &NodeClaim, now: Timestamp) -> Option<i64> {
        let (catalogue, labels) = (self.offerings.catalogue_of(claim, now)?, claim.metadata.labels.as_ref()?);
        let kind = catalogue.instance_type(labels.get(label::INSTANCE_TYPE)?)?;
        let fee = index.pools.get(claim.nodepool()).and_then(|pool| pool.node_fee().ok()).unwrap_or_default();
        Some(kind.price_of_node(labels)?.0 + catalogue.node_extras.0 + fee)
    }

    /// Stores what is left when the process ends. A replica that lost its lease stores nothing.
    pub async fn finish(&self) {
        if timeout(LAST_WRITE, self.store(true)).await.is_err() {
            tracing::warn!("the last decisions are not stored: no response from the API server");
        }
    }

    async fn store(&self, at_the_end: bool) {
        let [decisions, summaries] = &mut *self.stored.lock().await;
        let (cluster, now) = (&self.cluster, self.cluster.now());
        cluster.read(|index| {
            cluster.log.sample(index, &cluster.decisions, |claim| self.price(index, claim, now), now);
        });
        decisions.add(&cluster.log.take());
        summaries.add(cluster.log.summary(now, at_the_end).as_slice());
        let write = async {
            decisions.write().await;
            summaries.write().await;
        };
        // Another leader continues the log.
        let _ = self.leading.run(write).await;
    }
}

/// Ring of ConfigMaps with its content that is not written yet.
struct StoredRing {
    api: Api<ConfigMap>,
    segments: Segments,
    is_restored: bool,
}

impl StoredRing {
    fn new(api: Api<ConfigMap>, ring: Ring) -> Self {
        Self { api, segments: Segments::new(ring), is_restored: false }
    }

    fn add<T: Serialize>(&mut self, records: &[T]) {
        // The records are plain data: each has a form in JSON.
        self.segments.add(records.iter().filter_map(|record| serde_json::to_string(record).ok()));
    }

    /// Writes all changed segments. What a failure leaves is written the next time.
    async fn write(&mut self) {
        if !self.segments.has_changes() {
            return;
        }
        if let Err(error) = self.try_write().await {
            let error = daemon::error::chain(error.as_ref());
            tracing::warn!(error = error.as_str(), "failed to store the decision log, retrying");
        }
    }

    async fn try_write(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        if !self.is_restored {
            let mut found = Vec::new();
            for name in self.segments.names() {
                found.extend(self.api.get_opt(&name).await?);
            }
            self.segments.restore(&found);
            self.is_restored = true;
        }
        while let Some(map) = self.segments.next_write()? {
            let name = map.metadata.name.clone().unwrap_or_default();
            let params = PatchParams::apply(MANAGER).force();
            self.api.patch(&name, &params, &Patch::Apply(&map)).await?;
            self.segments.written();
        }
        Ok(())
    }
}
