//! Simulated instances of Kerf's side: a Node for each running instance, with the resources of its type. kwok's provider does
//! the same for the peer. Nothing boots and no agent runs, because the measurement is about the controller.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result};
use api::{label, taint};
use cloud::data::region_of_zone;
use cloud::fake::{FakeCloud, FakeInstance};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::catalogue::Catalogue;

/// Interval of the ticks of EC2's clock.
const POLL: Duration = Duration::from_millis(100);
/// Highest number of Nodes that register at the same time.
const AT_ONCE: usize = 8;

/// Background task that registers Nodes for running instances; stops when dropped.
pub struct Machines(JoinHandle<()>);

impl Drop for Machines {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Machines {
    pub fn start(client: Client, ec2: FakeCloud, catalogue: Catalogue) -> Self {
        Self(tokio::spawn(async move {
            let (nodes, mut registered, mut changes) = (Api::all(client), BTreeSet::new(), ec2.changes());
            loop {
                changes.mark_unchanged();
                let all = reconcile(&nodes, &ec2, &catalogue, &mut registered).await;
                tokio::time::sleep(POLL).await;
                // A list of all instances is expensive where there are thousands.
                while all && !changes.has_changed() {
                    tokio::time::sleep(POLL).await;
                    ec2.tick();
                }
            }
        }))
    }
}

/// Registers new instances; returns whether all of them succeeded. Failures are retried at the next call.
async fn reconcile(
    nodes: &Api<Node>,
    ec2: &FakeCloud,
    catalogue: &Catalogue,
    registered: &mut BTreeSet<String>,
) -> bool {
    let up = |machine: &FakeInstance| machine.instance.state == "running" && !registered.contains(&machine.instance.id);
    let new: Vec<FakeInstance> = ec2.machines().into_iter().filter(up).collect();
    let register = |machine: FakeInstance| async move {
        let done = register(nodes, &machine, catalogue).await;
        done.inspect_err(|error| log::warn!("{}: {error:#}", machine.instance.id)).ok().map(|()| machine.instance.id)
    };
    let done: Vec<Option<String>> = stream::iter(new).map(register).buffer_unordered(AT_ONCE).collect().await;
    let all = done.iter().all(Option::is_some);
    registered.extend(done.into_iter().flatten());
    all
}

async fn register(nodes: &Api<Node>, machine: &FakeInstance, catalogue: &Catalogue) -> Result<()> {
    let node = node(machine, catalogue)?;
    nodes.create(&PostParams::default(), &node).await.map(drop).context("its Node is refused")
}

/// Returns the Node as kubelet and the cloud controller create it.
fn node(machine: &FakeInstance, catalogue: &Catalogue) -> Result<Node> {
    let instance = &machine.instance;
    let (capacity, allocatable) = catalogue.sizes(&instance.instance_type)?;
    let arch = if machine.architecture == "arm64" { label::ARCH_ARM64 } else { label::ARCH_AMD64 };
    let region = region_of_zone(&instance.zone);
    let node = json!({
        "metadata": {"name": instance.private_dns_name, "labels": {
            label::HOSTNAME: instance.private_dns_name, label::ARCH: arch, label::OS: label::OS_LINUX,
            label::INSTANCE_TYPE: instance.instance_type, label::ZONE: instance.zone, label::REGION: region,
        }},
        "spec": {
            "providerID": instance.provider_id(),
            "taints": [{"key": taint::UNREGISTERED, "effect": taint::NO_EXECUTE}],
        },
        "status": {"capacity": capacity, "allocatable": allocatable},
    });
    serde_json::from_value(node).context("this is no Node")
}
