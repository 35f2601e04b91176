//! Stand-in for the AWS cloud controller manager: only initializes Nodes whose instance runs. In particular, the stand-in never
//! deletes a Node, because Kerf must do it and a test must be able to check it.

use std::time::Duration;

use anyhow::{Context, Result};
use api::label;
use cloud::data::region_of_zone;
use cloud::fake::{FakeCloud, FakeInstance};
use k8s_openapi::api::core::v1::{Node, Taint};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Taint of Nodes that wait for their cloud provider.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// Interval between two reconciles.
const POLL: Duration = Duration::from_millis(250);

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
        if let Err(error) = reconcile(&nodes, &cloud).await {
            log::warn!("the cloud controller cannot look at Nodes: {error:#}");
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn reconcile(nodes: &Api<Node>, cloud: &FakeCloud) -> Result<()> {
    for node in nodes.list(&ListParams::default()).await? {
        let Some(machine) = instance_of(&node, cloud) else { continue };
        let name = node.metadata.name.clone().unwrap_or_default();
        if let Err(error) = initialize(nodes, &node, &name, &machine, cloud).await {
            log::warn!(node = name.as_str(); "cannot be initialized yet: {error:#}");
        }
    }
    Ok(())
}

/// Returns the running instance of a Node that waits for its cloud provider; `None` for every other Node.
fn instance_of(node: &Node, cloud: &FakeCloud) -> Option<FakeInstance> {
    let spec = node.spec.as_ref()?;
    spec.taints.as_ref()?.iter().find(|taint| taint.key == UNINITIALIZED)?;
    let machine = cloud.machine(spec.provider_id.as_ref()?.rsplit('/').next()?)?;
    Some(machine).filter(|machine| machine.instance.state == "running")
}

/// Sets the addresses first: a Node without its taint must be complete.
async fn initialize(
    nodes: &Api<Node>,
    node: &Node,
    name: &str,
    machine: &FakeInstance,
    cloud: &FakeCloud,
) -> Result<()> {
    let params = PatchParams::default();
    let status = Patch::Merge(json!({"status": {"addresses": addresses(machine)}}));
    nodes.patch_status(name, &params, &status).await.context("its addresses")?;
    let zone_id = cloud.subnet(&machine.instance.subnet_id).map(|subnet| subnet.zone_id);
    let kept: Vec<&Taint> = taints(node).iter().filter(|taint| taint.key != UNINITIALIZED).collect();
    // The preceding patch changed the resource version, so the patch compares the taints themselves.
    let patch = json!([
        {"op": "test", "path": "/spec/taints", "value": taints(node)},
        {"op": "replace", "path": "/spec/taints", "value": kept},
    ]);
    let labels = Patch::Merge(json!({"metadata": {"labels": labels(machine, zone_id)}}));
    nodes.patch(name, &params, &labels).await.context("its labels")?;
    let patch = serde_json::from_value(patch).context("the stand-in made a patch that is none")?;
    nodes.patch(name, &params, &Patch::<()>::Json(patch)).await.context("its taint")?;
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
