//! Stand-in for the AWS cloud controller manager: only initializes Nodes whose instance runs. In particular, the stand-in never
//! deletes a Node, because Kerf must do it and a test must be able to check it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use api::label;
use cloud::data::region_of_zone;
use cloud::fake::{FakeCloud, FakeInstance};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Taint of Nodes that wait for their cloud provider.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Interval between two attempts to initialize the Nodes that wait.
const POLL: Duration = Duration::from_millis(250);
/// Highest number of Nodes that are initialized at the same time.
const AT_ONCE: usize = 8;

/// Running stand-in. Dropping it stops it.
#[derive(Debug)]
pub struct CloudController {
    task: JoinHandle<()>,
}

impl CloudController {
    /// Starts the stand-in. `client` must have permission to patch Nodes and their status.
    #[must_use]
    pub fn start(client: Client, cloud: FakeCloud) -> Self {
        Self { task: tokio::spawn(run(client, cloud)) }
    }

    /// Stops the stand-in and waits for its end.
    pub async fn stop(mut self) {
        self.task.abort();
        // The expected result is a cancellation; a panic was printed when it happened.
        drop((&mut self.task).await);
    }
}

impl Drop for CloudController {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(client: Client, cloud: FakeCloud) {
    let nodes = Api::<Node>::all(client);
    loop {
        if let Err(error) = follow(&nodes, &cloud).await {
            log::warn!("the cloud controller cannot look at Nodes: {error:#}");
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Instance ids of the Nodes that wait for their cloud provider, by name.
type Waiting = BTreeMap<String, String>;

/// Initializes Nodes until the watch fails.
async fn follow(nodes: &Api<Node>, cloud: &FakeCloud) -> Result<()> {
    let waiting = Mutex::new(Waiting::new());
    let watch = watcher(nodes.clone(), watcher::Config::default()).try_for_each(async |event| {
        observe(&mut lock(&waiting), event);
        Ok(())
    });
    tokio::select! {
        ended = watch => ended.context("the watch failed"),
        () = initialize_always(nodes, &waiting, cloud) => Ok(()),
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

fn observe(waiting: &mut Waiting, event: Event<Node>) {
    match event {
        Event::Apply(node) | Event::InitApply(node) => {
            let waits = taints(&node).iter().any(|taint| taint.key == UNINITIALIZED);
            match instance_id(&node).filter(|_| waits) {
                Some(instance) => drop(waiting.insert(name(&node).to_owned(), instance.to_owned())),
                None => drop(waiting.remove(name(&node))),
            }
        }
        Event::Delete(node) => drop(waiting.remove(name(&node))),
        Event::Init => waiting.clear(),
        Event::InitDone => {}
    }
}

/// Initializes each Node whose instance runs. The watch shows the success, and a failure is repeated at the next attempt.
async fn initialize_always(nodes: &Api<Node>, waiting: &Mutex<Waiting>, cloud: &FakeCloud) {
    loop {
        let running = |(name, id): (&String, &String)| {
            let machine = cloud.machine(id).filter(|machine| machine.instance.state == "running")?;
            Some((name.clone(), machine))
        };
        let ready: Vec<_> = lock(waiting).iter().filter_map(running).collect();
        initialize_all(nodes, ready, cloud).await;
        tokio::time::sleep(POLL).await;
    }
}

async fn initialize_all(nodes: &Api<Node>, ready: Vec<(String, FakeInstance)>, cloud: &FakeCloud) {
    let initialize = async |(name, machine): (String, FakeInstance)| {
        if let Err(error) = initialize(nodes, &name, &machine, cloud).await {
            log::warn!(node = name.as_str(); "cannot be initialized yet: {error:#}");
        }
    };
    stream::iter(ready).for_each_concurrent(AT_ONCE, initialize).await;
}

fn name(node: &Node) -> &str {
    node.metadata.name.as_deref().unwrap_or_default()
}

fn instance_id(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.provider_id.as_ref()?.rsplit('/').next()
}

/// Sets the addresses first: a Node without its taint must be complete.
async fn initialize(nodes: &Api<Node>, name: &str, machine: &FakeInstance, cloud: &FakeCloud) -> Result<()> {
    let params = PatchParams::default();
    let status = Patch::Merge(json!({"status": {"addresses": addresses(machine)}}));
    let written = nodes.patch_status(name, &params, &status).await.context("its addresses")?;
    let zone_id = cloud.subnet(&machine.instance.subnet_id).map(|subnet| subnet.zone_id);
    let kept: Vec<&Taint> = taints(&written).iter().filter(|taint| taint.key != UNINITIALIZED).collect();
    // The version lets the API server refuse taints that another program has changed meanwhile.
    let patch = Patch::Merge(json!({
        "metadata": {"labels": labels(machine, zone_id), "resourceVersion": written.metadata.resource_version},
        "spec": {"taints": kept},
    }));
    nodes.patch(name, &params, &patch).await.context("its labels and its taint")?;
    log::info!(node = name, instance = machine.instance.id.as_str(); "initialized");
    Ok(())
}

fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Returns the addresses in the family of the cluster.
fn addresses(machine: &FakeInstance) -> Value {
    let instance = &machine.instance;
    let own = machine.ipv6().map_or_else(|| instance.private_ip.clone(), |address| address.to_string());
    json!([
        {"type": "InternalIP", "address": own},
        {"type": "InternalDNS", "address": instance.private_dns_name},
        {"type": "Hostname", "address": instance.private_dns_name},
    ])
}

fn labels(machine: &FakeInstance, zone_id: Option<String>) -> Value {
    let instance = &machine.instance;
    let region = region_of_zone(&instance.zone);
    let mut labels = json!({
        label::ZONE: instance.zone,
        label::REGION: region,
        label::INSTANCE_TYPE: instance.instance_type,
        "beta.kubernetes.io/instance-type": instance.instance_type,
        "failure-domain.beta.kubernetes.io/zone": instance.zone,
        "failure-domain.beta.kubernetes.io/region": region,
        // In a real cluster the node plugin of the EBS CSI driver adds it.
        "topology.ebs.csi.aws.com/zone": instance.zone,
    });
    if let Some(zone_id) = zone_id {
        labels[label::ZONE_ID] = json!(zone_id);
    }
    labels
}
