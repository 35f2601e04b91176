//! Random clusters as Kubernetes objects: small, full of constraints, and the same for the same seed everywhere.
//!
//! A cluster is made of what an API server would hold, so that the way from objects to the planner's snapshot is part of
//! what is judged. Which kinds of constraint may appear is a set, so that a disagreement can be traced to its kind.

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

/// The moment of every cluster.
const NOW: &str = "2026-01-01T12:00:00Z";
/// The one node class; crate `snapshot` finds the catalogue by it.
const CLASS: &str = "default";
/// Availability zones.
const ZONES: [&str; 3] = ["us-west-2a", "us-west-2b", "us-west-2c"];
/// A label that only our users know: some pools and nodes have it, with some values.
const RACK: &str = "example.com/rack";
/// Values of [`RACK`].
const RACKS: [&str; 2] = ["r1", "r2"];
/// The CSI driver whose volumes the clusters use.
pub(crate) const DRIVER: &str = "ebs.csi.aws.com";

/// A cluster at one moment, as lists of Kubernetes objects in JSON.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// What it was made from.
    pub seed: u64,
    /// Kinds of constraint that may appear in it.
    pub kinds: Kinds,
    /// Nodes that exist.
    pub nodes: Vec<Value>,
    /// Nodes as they will be when all that start are ready and all that leave are gone.
    pub settled: Vec<Value>,
    /// Nodes that EC2 has still to decide about: for each all that it may become.
    pub open: Vec<Vec<Value>>,
    /// Names of the nodes that leave, and whose pods need another place.
    pub leaving: Vec<String>,
    /// NodeClaims of the nodes that are managed.
    pub node_claims: Vec<Value>,
    /// Pods that run on these nodes.
    pub bound: Vec<Value>,
    /// Pods that the scheduler refused.
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
    /// CSINodes as they are.
    pub csi_nodes: Vec<Value>,
    /// CSINodes as they will be beside the settled nodes.
    pub settled_csi_nodes: Vec<Value>,
    /// NodeOverlays.
    pub overlays: Vec<Value>,
    /// CapacityBuffers.
    pub buffers: Vec<Value>,
    /// PodTemplates that the buffers speak of.
    pub pod_templates: Vec<Value>,
    /// What can be bought.
    pub catalogue: Catalogue,
}

impl Cluster {
    /// The cluster of one seed, with some of the kinds in `allowed`. The same arguments give the same cluster.
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

    /// The same cluster, in every second seed with pools that give back and replace whatever they can.
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

    /// The cluster when the nodes that a plan takes away are on their way out.
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

    /// The planner's snapshot of the cluster, by the way that the controller and the command take.
    ///
    /// # Errors
    /// When an object is not what crate `api` reads: a fault of the generator.
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

/// Namespaces, two of which belong to a team.
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
