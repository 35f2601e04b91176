//! Memory of a large cluster's snapshot, and the time to build it from nothing and after a small change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use api::objects::{Node, Pod};
use api::{NodeClaim, NodePool};
use jiff::Timestamp;
use planner::Catalogue;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use snapshot::{Input, SnapshotCache, SnapshotResult};

/// Size of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Number of nodes, each with its NodeClaim.
    pub nodes: usize,
    /// Number of pods bound to them.
    pub pods: usize,
    /// Number of owners of the pods; the pods of each owner have the same requests.
    pub owners: usize,
}

/// Measured values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Size of the cluster.
    pub size: Size,
    /// Bytes of the snapshot and of the cache behind it. The API objects are not counted, because the index holds them anyway.
    pub bytes: u64,
    /// Peak memory of the first build, in bytes.
    pub peak: u64,
    /// Duration of the first build.
    pub first: Duration,
    /// Duration of a build after a change of `changed` pods.
    pub again: Duration,
    /// Number of pods that change before each further build.
    pub changed: usize,
}

/// Number of pods that change between two snapshots, as during a rollout.
const CHANGED: usize = 100;
/// Number of further builds; the fastest counts.
const ROUNDS: usize = 5;
/// 2026-11-02, a day after the creation of all objects.
const NOW: Timestamp = Timestamp::constant(1_793_577_600, 0);
const CPUS: [u32; 5] = [100, 250, 500, 1000, 1500];

/// Builds the snapshot of a cluster of this size repeatedly.
///
/// # Errors
/// Returns an error if the generated objects cannot be deserialized.
pub fn measure(size: Size) -> anyhow::Result<Measured> {
    let mut cluster = Cluster::new(size)?;
    let mut memory = SnapshotCache::default();
    let mut built = SnapshotResult::default();
    let started = Instant::now();
    let counted = allocation_counter::measure(|| built = memory.build(&cluster.input()));
    let first = started.elapsed();
    let mut again = Duration::MAX;
    for round in 0..ROUNDS {
        cluster.change(round)?;
        let input = cluster.input();
        let started = Instant::now();
        let next = memory.build(&input);
        again = again.min(started.elapsed());
        built = next;
    }
    let bytes = u64::try_from(counted.bytes_current).unwrap_or(0);
    anyhow::ensure!(built.snapshot.nodes.len() == size.nodes, "{} nodes in the snapshot", built.snapshot.nodes.len());
    Ok(Measured { size, bytes, peak: counted.bytes_max, first, again, changed: CHANGED })
}

/// API objects of a cluster.
pub(crate) struct Cluster {
    size: Size,
    pods: Vec<Arc<Pod>>,
    nodes: Vec<Arc<Node>>,
    claims: Vec<Arc<NodeClaim>>,
    pools: Vec<Arc<NodePool>>,
    catalogue: Arc<Catalogue>,
}

impl Cluster {
    pub(crate) fn new(size: Size) -> anyhow::Result<Self> {
        Ok(Self {
            size,
            pods: (0..size.pods).map(|index| object(pod(size, index, 0))).collect::<Result<_, _>>()?,
            nodes: (0..size.nodes).map(|index| object(node(index))).collect::<Result<_, _>>()?,
            claims: (0..size.nodes).map(|index| object(claim(index))).collect::<Result<_, _>>()?,
            pools: vec![object(pool())?],
            catalogue: Arc::new(Catalogue { name: "default".to_owned(), types: Vec::new(), ..Catalogue::default() }),
        })
    }

    pub(crate) fn input(&self) -> Input<'_> {
        Input {
            pods: self.pods.iter().collect(),
            nodes: self.nodes.iter().collect(),
            claims: self.claims.iter().collect(),
            pools: self.pools.iter().collect(),
            catalogues: BTreeMap::from([("default".to_owned(), Arc::clone(&self.catalogue))]),
            ..Input::at(NOW)
        }
    }

    /// Adds instance types for new nodes.
    pub(crate) fn set_types(&mut self, catalogue: Catalogue) {
        self.catalogue = Arc::new(Catalogue { name: "default".to_owned(), ..catalogue });
    }

    /// Replaces some pods by new versions, spread over the cluster.
    fn change(&mut self, round: usize) -> anyhow::Result<()> {
        for index in (round..self.size.pods).step_by(self.size.pods.div_ceil(CHANGED)) {
            self.pods[index] = object(pod(self.size, index, round + 1))?;
        }
        Ok(())
    }
}

fn object<T: DeserializeOwned>(value: Value) -> anyhow::Result<Arc<T>> {
    Ok(Arc::new(serde_json::from_value(value).context("a made-up object")?))
}

fn pod(size: Size, index: usize, version: usize) -> Value {
    let owner = format!("app-{}", index % size.owners);
    let (cpu, memory) = (CPUS[index % size.owners % CPUS.len()], 100 + index % size.owners);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{owner}-{index:06}"), "namespace": "default", "uid": format!("pod-uid-{index:06}"),
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-11-01T00:00:00Z",
            "labels": {"app": owner, "app.kubernetes.io/version": "1.2.3", "pod-template-hash": "5d59d67564"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": true,
            }],
        },
        "spec": {
            "nodeName": format!("node-{}", index % size.nodes),
            "containers": [{"name": "main", "image": "app:1", "resources": {
                "requests": {"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")},
            }}],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": owner}},
            }],
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn labels(index: usize) -> Value {
    json!({
        "kubernetes.io/hostname": format!("node-{index}"), "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": format!("us-east-1{}", ["a", "b", "c"][index % 3]),
        "topology.kubernetes.io/region": "us-east-1", "node.kubernetes.io/instance-type": "m5.8xlarge",
        "karpenter.sh/capacity-type": "on-demand", "karpenter.sh/nodepool": "default",
        "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        "karpenter.k8s.aws/instance-family": "m5", "karpenter.k8s.aws/instance-size": "8xlarge",
        "karpenter.k8s.aws/instance-cpu": "32", "karpenter.k8s.aws/instance-memory": "131072",
    })
}

fn node(index: usize) -> Value {
    let amounts = json!({"cpu": "32", "memory": "128Gi", "pods": "110", "ephemeral-storage": "20Gi"});
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("node-{index}"), "uid": format!("node-uid-{index}"),
            "creationTimestamp": "2026-11-01T00:00:00Z", "labels": labels(index),
        },
        "spec": {"providerID": provider_id(index)},
        "status": {
            "capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn claim(index: usize) -> Value {
    let conditions = ["Launched", "Registered", "Initialized"].map(|name| {
        json!({
            "type": name, "status": "True", "reason": name, "message": "",
            "lastTransitionTime": "2026-11-01T00:00:00Z",
        })
    });
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": format!("default-{index:05}"), "uid": format!("claim-uid-{index}"),
            "creationTimestamp": "2026-11-01T00:00:00Z", "labels": labels(index),
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}],
        },
        "status": {
            "providerID": provider_id(index), "nodeName": format!("node-{index}"),
            "conditions": conditions,
        },
    })
}

fn provider_id(index: usize) -> String {
    format!("aws:///us-east-1a/i-{index:017x}")
}

fn pool() -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "default", "uid": "pool-uid"},
        "spec": {"template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        }}},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-11-01T00:00:00Z",
        }]},
    })
}
