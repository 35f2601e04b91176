//! Random clusters as Kubernetes objects: small, with many constraints, and the same for the same seed on every machine.
//!
//! A cluster consists of the objects of an API server, so the conversion of objects into the planner's snapshot is part of the
//! test. The permitted kinds of constraint are a set, so that a disagreement can be traced to its kind.

mod catalogue;
mod daemons;
mod extras;
mod kinds;
mod nodes;
mod pods;
mod pools;
mod selectors;
mod storage;

use std::sync::Arc;

use anyhow::{Context, Result};
use api::annotation;
use jiff::Timestamp;
use planner::{Catalogue, Plan};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use snapshot::{Input, SnapshotResult};

pub(crate) use day::dice::Dice;
pub use kinds::{Kind, Kinds};
pub use nodes::{amounts, machine_labels};
pub use storage::csi_node;

/// Moment of every cluster.
const NOW: &str = "2026-01-01T12:00:00Z";
/// Name of the only EC2NodeClass; crate `snapshot` finds the catalogue by it.
const CLASS: &str = "default";
/// Availability zones.
const ZONES: [&str; 3] = ["us-west-2a", "us-west-2b", "us-west-2c"];
/// Custom label that some NodePools and nodes have.
const RACK: &str = "example.com/rack";
/// Values of [`RACK`].
const RACKS: [&str; 2] = ["r1", "r2"];
/// CSI driver of the volumes.
pub(crate) const DRIVER: &str = "ebs.csi.aws.com";

/// Cluster at one moment, as lists of Kubernetes objects in JSON.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Seed of the cluster.
    pub seed: u64,
    /// Kinds of constraint that may appear in it.
    pub kinds: Kinds,
    /// Existing nodes.
    pub nodes: Vec<Value>,
    /// Nodes after all starting nodes are ready and all leaving nodes are removed.
    pub settled: Vec<Value>,
    /// Nodes whose offering EC2 has not chosen yet, each with all its possible results.
    pub open: Vec<Vec<Value>>,
    /// Names of the leaving nodes, whose pods need to be rescheduled.
    pub leaving: Vec<String>,
    /// NodeClaims of the managed nodes.
    pub node_claims: Vec<Value>,
    /// Pods that run on these nodes.
    pub bound: Vec<Value>,
    /// Pods that kube-scheduler marked as unschedulable.
    pub pending: Vec<Value>,
    /// DaemonSets.
    pub daemon_sets: Vec<Value>,
    /// NodePools.
    pub pools: Vec<Value>,
    /// Namespaces.
    pub namespaces: Vec<Value>,
    /// PersistentVolumes, all of them bound.
    pub volumes: Vec<Value>,
    /// PersistentVolumeClaims.
    pub volume_claims: Vec<Value>,
    /// StorageClasses.
    pub storage_classes: Vec<Value>,
    /// Current CSINodes.
    pub csi_nodes: Vec<Value>,
    /// CSINodes that belong to the settled nodes.
    pub settled_csi_nodes: Vec<Value>,
    /// NodeOverlays.
    pub overlays: Vec<Value>,
    /// CapacityBuffers.
    pub buffers: Vec<Value>,
    /// PodTemplates of the buffers.
    pub pod_templates: Vec<Value>,
    /// Instance types and offerings.
    pub catalogue: Catalogue,
}

impl Cluster {
    /// Creates the cluster of one seed, with some of the kinds in `allowed`. The same arguments give the same cluster.
    #[must_use]
    pub fn new(seed: u64, allowed: Kinds) -> Self {
        let mut dice = Dice::new(seed);
        let kinds = allowed.some(&mut dice);
        let catalogue = catalogue::catalogue(&mut dice, kinds);
        let mut cluster = Self {
            seed,
            kinds,
            nodes: Vec::new(),
            settled: Vec::new(),
            open: Vec::new(),
            leaving: Vec::new(),
            node_claims: Vec::new(),
            bound: Vec::new(),
            pending: Vec::new(),
            daemon_sets: Vec::new(),
            pools: pools::pools(&mut dice, kinds),
            namespaces: namespaces(),
            volumes: Vec::new(),
            volume_claims: Vec::new(),
            storage_classes: if kinds.has(Kind::Volumes) { storage::classes() } else { Vec::new() },
            csi_nodes: Vec::new(),
            settled_csi_nodes: Vec::new(),
            overlays: Vec::new(),
            buffers: Vec::new(),
            pod_templates: Vec::new(),
            catalogue,
        };
        if kinds.has(Kind::Daemons) {
            cluster.daemon_sets = daemons::sets(&mut dice, kinds);
        }
        if kinds.has(Kind::Existing) {
            nodes::add(&mut dice, &mut cluster);
        }
        pods::add_pending(&mut dice, &mut cluster);
        extras::add(&mut dice, &mut cluster);
        cluster
    }

    /// Returns the same cluster; for every second seed, its NodePools consolidate as much as possible and some NodeClaims are
    /// drifted.
    #[must_use]
    pub fn restless(mut self) -> Self {
        if self.seed.is_multiple_of(2) {
            return self;
        }
        for pool in &mut self.pools {
            pool["spec"]["disruption"] = json!({"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]});
            pool["metadata"]["annotations"] = json!({
                annotation::CONSOLIDATION_MIN_SAVING: "0%", annotation::CONSOLIDATION_MIN_SAVING_PER_POD: "0",
            });
        }
        for (number, claim) in self.node_claims.iter_mut().enumerate() {
            let conditions = claim.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
            if let Some(conditions) = conditions.filter(|_| number % 3 == 1) {
                conditions.push(json!({"type": "Drifted", "status": "True", "reason": "AMIDrift", "message": "",
                                       "lastTransitionTime": "2026-01-01T11:00:00Z"}));
            }
        }
        self
    }

    /// Returns the cluster after the nodes of a plan's commands have begun to leave.
    #[must_use]
    pub fn after(&self, plan: &Plan) -> Self {
        let mut after = self.clone();
        let goes = |node: &Value| {
            plan.moves.iter().flat_map(|it| &it.nodes).any(|leaver| node["metadata"]["name"] == json!(leaver.node))
        };
        after.settled.retain(|node| !goes(node));
        after.settled_csi_nodes.retain(|node| !goes(node));
        after.leaving.extend(plan.moves.iter().flat_map(|it| &it.nodes).map(|leaver| leaver.node.clone()));
        after
    }

    /// Builds the planner's snapshot of the cluster in the same way as the controller and the CLI.
    ///
    /// # Errors
    /// Returns an error if crate `api` cannot read an object, which is a bug of the generator.
    pub fn build(&self) -> Result<SnapshotResult> {
        let pods = read(self.bound.iter().chain(&self.pending))?;
        let nodes = read(&self.nodes)?;
        let claims = read(&self.node_claims)?;
        let pools = read(&self.pools)?;
        let daemon_sets = read(&self.daemon_sets)?;
        let namespaces = read(&self.namespaces)?;
        let volumes = read(&self.volumes)?;
        let volume_claims = read(&self.volume_claims)?;
        let storage_classes = read(&self.storage_classes)?;
        let csi_nodes = read(&self.csi_nodes)?;
        let overlays = read(&self.overlays)?;
        let buffers = read(&self.buffers)?;
        let pod_templates = read(&self.pod_templates)?;
        let now: Timestamp = NOW.parse().context("the moment of every cluster")?;
        Ok(snapshot::build(&Input {
            seed: self.seed,
            pods: pods.iter().collect(),
            nodes: nodes.iter().collect(),
            claims: claims.iter().collect(),
            pools: pools.iter().collect(),
            daemon_sets: daemon_sets.iter().collect(),
            namespaces: namespaces.iter().collect(),
            volumes: volumes.iter().collect(),
            volume_claims: volume_claims.iter().collect(),
            storage_classes: storage_classes.iter().collect(),
            csi_nodes: csi_nodes.iter().collect(),
            overlays: overlays.iter().collect(),
            buffers: buffers.iter().collect(),
            pod_templates: pod_templates.iter().collect(),
            catalogues: [(CLASS.to_owned(), Arc::new(self.catalogue.clone()))].into(),
            ..Input::at(now)
        }))
    }
}

fn read<'a, T: DeserializeOwned>(objects: impl IntoIterator<Item = &'a Value>) -> Result<Vec<Arc<T>>> {
    let one = |it: &Value| T::deserialize(it).map(Arc::new).with_context(|| format!("cannot read {it}"));
    objects.into_iter().map(one).collect()
}

/// Returns the namespaces; two of them have a team label.
fn namespaces() -> Vec<Value> {
    [("default", None), ("kube-system", None), ("blue", Some("sea")), ("green", Some("land"))].map(namespace).into()
}

fn namespace((name, team): (&str, Option<&str>)) -> Value {
    let mut labels = json!({"kubernetes.io/metadata.name": name});
    if let Some(team) = team {
        labels["team"] = json!(team);
    }
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}
