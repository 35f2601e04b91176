//! Real memory of machines, learned from nodes and kept in a ConfigMap: a restart would otherwise begin with estimates
//! again, and promise pods what the next node of the type does not have.
//!
//! A ConfigMap, because it is the smallest durable thing that the controller may own: one object in its own namespace, no
//! kind of its own, and whoever deletes it loses nothing but estimates that are learned again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::objects::Node;
use api::{NodeClaim, label, quantity};
use cloud::types::LearnedMemory;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::capacity::offerings::Offerings;
use crate::state::cluster::Cluster;
use crate::state::index::Index;

/// The ConfigMap's name, in the controller's own namespace.
pub const NAME: &str = "kerf-learned-memory";
/// The key under which the readings stand.
const KEY: &str = "readings.json";
/// How often nodes are looked at, and how often the ConfigMap is written at most.
const LOOK: Duration = Duration::from_secs(10);
/// How the API server names the writer.
const MANAGER: &str = "kerf-memory";

/// What one node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryReading {
    /// The claim's class.
    pub class: String,
    /// Instance type.
    pub instance_type: String,
    /// The image that it runs.
    pub image: String,
    /// Bytes that its kernel shows.
    pub memory: i64,
}

/// What nodes say that nobody has read yet: of those that are registered, by provider id. Nodes that are gone are
/// forgotten.
#[must_use]
pub fn unread(index: &Index, read: &mut BTreeSet<String>) -> BTreeMap<String, MemoryReading> {
    let there: BTreeSet<&str> = index.nodes.values().map(|node| node.spec.provider_id.as_str()).collect();
    read.retain(|id| there.contains(id.as_str()));
    let registered = index.nodes.values().filter(|node| node.is_registered() && !read.contains(&node.spec.provider_id));
    let reading = |node: &Node| Some((node.spec.provider_id.clone(), reading(node, index.claim_of(node)?)?));
    registered.filter_map(|node| reading(node)).collect()
}

fn reading(node: &Node, claim: &NodeClaim) -> Option<MemoryReading> {
    let memory = node.status.capacity.get(quantity::MEMORY)?.amount(quantity::MEMORY).ok()?;
    let image = claim.status.as_ref()?.image_id.clone();
    let known = memory > 0 && !image.is_empty();
    known.then_some(())?;
    Some(MemoryReading {
        class: claim.spec.node_class_ref.name.clone(),
        instance_type: node.label(label::INSTANCE_TYPE)?.to_owned(),
        image,
        memory,
    })
}

/// Reads what was kept, then learns from nodes and keeps what is new, for ever.
pub async fn follow(client: Client, namespace: String, cluster: Arc<Cluster>, market: Arc<Offerings>) {
    let api: Api<ConfigMap> = Api::namespaced(client, &namespace);
    restore(&api, &market).await;
    let (mut read, mut unkept) = (BTreeSet::new(), false);
    loop {
        tokio::time::sleep(LOOK).await;
        let found = cluster.read(|index| unread(index, &mut read));
        for (provider_id, reading) in found {
            // While the class is not resolved nobody knows whether the image is still its own: read again later.
            if let Some(news) = market.learn_memory(&reading, cluster.now()) {
                unkept |= news != cloud::types::MemoryUpdate::Nothing;
                read.insert(provider_id);
            }
        }
        if unkept {
            unkept = !keep(&api, &market, cluster.now()).await;
        }
    }
}

/// Takes over what an earlier life of the controller kept.
async fn restore(api: &Api<ConfigMap>, market: &Offerings) {
    let text = match api.get_opt(NAME).await {
        Ok(found) => found.and_then(|map| map.data?.remove(KEY)),
        Err(error) => {
            log::warn!(
                configmap = NAME, error = daemon::error::chain(&error).as_str();
                "failed to read the memory overhead, measuring again"
            );
            return;
        }
    };
    let Some(text) = text else { return };
    match LearnedMemory::read(&text) {
        Ok(memory) => market.restore_memory(memory),
        Err(error) => {
            log::warn!(
                configmap = NAME, error = error.to_string().as_str();
                "memory overhead is invalid, measuring again"
            );
        }
    }
}

/// Whether what was learned is kept now.
async fn keep(api: &Api<ConfigMap>, market: &Offerings, now: Timestamp) -> bool {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME},
        "data": {KEY: market.memory_text(now)},
    });
    let written = api.patch(NAME, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&map)).await;
    if let Err(error) = &written {
        log::warn!(
            configmap = NAME, error = daemon::error::chain(error).as_str();
            "failed to write the memory overhead, retrying"
        );
    }
    written.is_ok()
}

#[cfg(test)]
mod tests;
