//! Measured amounts of nodes, stored in a ConfigMap. Without the ConfigMap, a restarted controller would begin with estimates
//! and plan memory, disk space or volumes that the next node of the type does not have.
//!
//! A ConfigMap is the smallest durable object that the controller may own: one object in its own namespace, without a CRD. Its
//! deletion loses only measurements, which are made again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::objects::Node;
use cloud::types::{MeasurementUpdate, Measurements, NodeReading, readings};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::capacity::offerings::Offerings;
use crate::state::cluster::Cluster;
use crate::state::index::Index;

/// Name of the ConfigMap in the controller's namespace.
pub const NAME: &str = "kerf-learned-memory";
/// Key of the readings in the ConfigMap.
const KEY: &str = "readings.json";
/// Interval between reads of the nodes, and shortest interval between writes of the ConfigMap.
const LOOK: Duration = Duration::from_secs(10);
/// Field manager of the writes.
const MANAGER: &str = "kerf-memory";

/// Returns new readings of registered nodes, by an id of the reading. Ids of deleted nodes are removed from `read`.
#[must_use]
pub fn unread(index: &Index, read: &mut BTreeSet<String>) -> BTreeMap<String, NodeReading> {
    let there: BTreeSet<&str> = index.nodes.values().map(|node| node.spec.provider_id.as_str()).collect();
    read.retain(|id| there.contains(id.split_once('#').map_or(id.as_str(), |(node, _)| node)));
    let of_node = |node: &Arc<Node>| {
        let csi = node.metadata.name.as_deref().and_then(|name| index.csi_nodes.get(name));
        let new = |id: &str| !read.contains(id);
        index.claim_of(node).map(|claim| readings(node, claim, csi.map(AsRef::as_ref), new)).unwrap_or_default()
    };
    index.nodes.values().flat_map(of_node).collect()
}

/// Restores the stored readings, then reads nodes and stores changes, forever.
pub async fn follow(client: Client, namespace: String, cluster: Arc<Cluster>, offerings: Arc<Offerings>) {
    let api: Api<ConfigMap> = Api::namespaced(client, &namespace);
    restore(&api, &offerings).await;
    let (mut read, mut unkept) = (BTreeSet::new(), false);
    loop {
        tokio::time::sleep(LOOK).await;
        let found = cluster.read(|index| unread(index, &mut read));
        for (provider_id, reading) in found {
            // While the EC2NodeClass is not resolved, its images are unknown, and the image cannot be compared: read again
            // later.
            if let Some(news) = offerings.learn_node(&reading, cluster.now()) {
                unkept |= news != MeasurementUpdate::Nothing;
                read.insert(provider_id);
            }
        }
        if unkept {
            unkept = !keep(&api, &offerings, cluster.now()).await;
        }
    }
}

/// Restores the readings that an earlier process stored.
async fn restore(api: &Api<ConfigMap>, offerings: &Offerings) {
    let text = match api.get_opt(NAME).await {
        Ok(found) => found.and_then(|map| map.data?.remove(KEY)),
        Err(error) => {
            tracing::warn!(
                configmap = NAME,
                error = daemon::error::chain(&error).as_str(),
                "failed to read the measured amounts, measuring again"
            );
            return;
        }
    };
    let Some(text) = text else { return };
    match Measurements::read(&text) {
        Ok(measured) => offerings.restore_measured(measured),
        Err(error) => {
            tracing::warn!(
                configmap = NAME,
                error = error.to_string().as_str(),
                "measured amounts are invalid, measuring again"
            );
        }
    }
}

/// Stores the readings and reports whether the write succeeded.
async fn keep(api: &Api<ConfigMap>, offerings: &Offerings, now: Timestamp) -> bool {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME},
        "data": {KEY: offerings.measured_text(now)},
    });
    let written = api.patch(NAME, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&map)).await;
    if let Err(error) = &written {
        tracing::warn!(
            configmap = NAME,
            error = daemon::error::chain(error).as_str(),
            "failed to write the measured amounts, retrying"
        );
    }
    written.is_ok()
}

#[cfg(test)]
mod tests;
