//! Nodes of KWOK in place of EC2 instances, to try Kerf in any cluster without AWS. EC2 is emulated in memory. Each running
//! instance gets a Node, which KWOK keeps Ready and on which KWOK runs pods. The Node stores its instance, so that a restart of
//! the controller loses none. EC2's notices and shortages are emulated on request.

mod node;
mod requested_event;
mod requested_shortage;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api::objects::Node;
use api::{EC2NodeClass, annotation, reason};
use cloud::data;
use cloud::fake::{FakeCloud, FakeInstance};
use jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};

use super::cluster_info;
use crate::settings::{EMULATED_QUEUE, Settings};
use crate::state::cluster::Cluster;
use crate::write::events::{Event, ObjectReference};
use requested_event::RequestedEvent;
use requested_shortage::EmulatedRegion;

/// Interval between checks of the instances.
const POLL: Duration = Duration::from_millis(500);

/// Emulates EC2 in the region of the settings, with images for the version of the cluster.
pub(super) async fn emulate_ec2(settings: &Settings, client: &Client) -> anyhow::Result<FakeCloud> {
    let version = cluster_info::served_version(client).await?;
    let offerings = data::type_offerings(&settings.region).context("AWS_REGION (kerf.region of the chart)")?;
    let zones: BTreeSet<&str> = offerings.iter().map(|offering| offering.zone.as_str()).collect();
    let zones: Vec<&str> = zones.into_iter().collect();
    let builder =
        FakeCloud::builder(&settings.region).cluster(&settings.cluster_name).kubernetes(&version).zones(&zones);
    // Ids of instances must differ from those of earlier runs.
    let seed = u64::try_from(Timestamp::now().as_microsecond()).unwrap_or_default();
    let ec2 = builder.seed(seed).for_trials().build().context("the emulation of EC2 has no data")?;
    ec2.create_queue(EMULATED_QUEUE);
    ec2.events_to(Some(EMULATED_QUEUE));
    Ok(ec2)
}

/// Instances of the emulated EC2 as Nodes of the cluster.
pub(super) struct KwokNodes {
    ec2: FakeCloud,
    region: EmulatedRegion,
    client: Client,
    cluster: Arc<Cluster>,
}

impl KwokNodes {
    /// Restores the instances of existing Nodes.
    pub(super) async fn restore(ec2: FakeCloud, client: Client, cluster: Arc<Cluster>) -> anyhow::Result<Self> {
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await;
        let nodes = nodes.context("failed to list the Nodes of earlier runs")?;
        let instances: Vec<_> = nodes.items.iter().filter_map(node::instance).collect();
        tracing::info!(instances = instances.len(), "restored instances of KWOK's nodes");
        ec2.account().restore(instances);
        let region = EmulatedRegion::read(&ec2.region())?;
        Ok(Self { ec2, region, client, cluster })
    }

    /// Registers instances and opens nodes, forever.
    pub(super) async fn run(self) {
        loop {
            self.ec2.tick();
            self.register_instances().await;
            self.open_nodes().await;
            self.emulate_shortages();
            self.emulate_events().await;
            tokio::time::sleep(POLL).await;
        }
    }

    /// Creates a Node for each running instance without one whose NodeClaim is known.
    async fn register_instances(&self) {
        let running = self.ec2.machines().into_iter().filter(|machine| machine.instance.state == "running");
        for FakeInstance { instance, .. } in running {
            let provider_id = instance.provider_id();
            let claim = self.cluster.read(|index| {
                let is_registered = !index.all_nodes_of(&provider_id).is_empty();
                index.single_claim(&provider_id).filter(|_| !is_registered).cloned()
            });
            let Some(claim) = claim else { continue };
            let created =
                Api::all(self.client.clone()).create(&PostParams::default(), &node::node(&instance, &claim)).await;
            match created {
                Ok(_) => {}
                // The watch has not shown the Node yet.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                Err(error) => {
                    let error = daemon::error::chain(&error);
                    tracing::warn!(node = instance.private_dns_name, error = error.as_str(), "cannot create the node");
                }
            }
        }
    }

    /// Removes the startup taint of nodes that are ready, as agents do. Nodes of KWOK have no agent.
    async fn open_nodes(&self) {
        let closed: Vec<Arc<Node>> = self
            .cluster
            .read(|index| index.nodes.values().filter(|node| node::waits_for_its_agent(node)).cloned().collect());
        for closed in closed {
            let patch = Patch::Merge(node::without_startup_taint(&closed));
            let nodes = Api::<Node>::all(self.client.clone());
            if let Err(error) = nodes.patch(closed.name(), &PatchParams::default(), &patch).await {
                let error = daemon::error::chain(&error);
                tracing::warn!(node = closed.name(), error = error.as_str(), "cannot remove the startup taint");
            }
        }
    }

    /// Takes the capacity from EC2 that EC2NodeClasses request, and gives back the rest. An invalid request takes nothing.
    fn emulate_shortages(&self) {
        let classes: Vec<Arc<EC2NodeClass>> = self.cluster.read(|index| index.classes.values().cloned().collect());
        let requested = classes.iter().flat_map(|class| {
            self.region.shortages(class).unwrap_or_else(|error| {
                self.reject(ObjectReference::to(class.as_ref()), annotation::EMULATED_SHORTAGE, &error);
                Vec::new()
            })
        });
        self.ec2.set_outages(requested.collect());
    }

    /// Emulates the events that are requested for nodes, each once.
    async fn emulate_events(&self) {
        let requests: Vec<Arc<Node>> = self.cluster.read(|index| {
            let is_requested = |node: &&Arc<Node>| node.annotation(annotation::EMULATED_EVENT).is_some();
            index.nodes.values().filter(is_requested).cloned().collect()
        });
        for node in requests {
            match RequestedEvent::of(&node) {
                Some(Ok((event, instance))) => self.emulate_event(&node, event, &instance.id).await,
                Some(Err(error)) => self.reject(ObjectReference::to(node.as_ref()), annotation::EMULATED_EVENT, &error),
                None => {}
            }
        }
    }

    async fn emulate_event(&self, node: &Node, event: RequestedEvent, instance: &str) {
        let nodes = Api::<Node>::all(self.client.clone());
        let patch = Patch::Merge(requested_event::without_request(node));
        match nodes.patch(node.name(), &PatchParams::default(), &patch).await {
            Ok(_) if event.emulate(&self.ec2, instance, Timestamp::now()) => {
                tracing::info!(node = node.name(), instance, ?event, "emulated an event of EC2");
            }
            Ok(_) => tracing::warn!(node = node.name(), instance, ?event, "the instance of the event does not run"),
            // The watch shows the next version soon, perhaps without the request.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
            Err(error) => {
                let error = daemon::error::chain(&error);
                tracing::warn!(node = node.name(), error = error.as_str(), "cannot remove the request of an event");
            }
        }
    }

    fn reject(&self, object: ObjectReference, annotation: &str, error: &str) {
        let message = format!("annotation {annotation} is ignored: {error}");
        self.cluster.notes.publish(Event::warning(object, reason::INVALID_ANNOTATION, message));
    }
}
