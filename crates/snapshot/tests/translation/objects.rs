//! Objects as the API server sends them, for the tests of the translation.

use std::sync::Arc;

use api::objects::{
    CSINode, DaemonSet, Deployment, LimitRange, Namespace, Node, NodeReport, PersistentVolume, PersistentVolumeClaim,
    Pod, PodDisruptionBudget, PodTemplate, PriorityClass, RuntimeClass, StorageClass,
};
use api::{CapacityBuffer, Commitment, NodeClaim, NodeOverlay, NodePool, ProvisioningRequest, SpendPolicy};
use jiff::Timestamp;
use planner::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering, Reservation, Resources};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use snapshot::{Input, Settings, SnapshotCache, SnapshotResult};

/// Current time in every test.
pub const NOW: &str = "2026-01-01T12:00:00Z";

/// A cluster as a folder of manifests.
#[derive(Default)]
pub struct Cluster {
    pub pods: Vec<Value>,
    pub nodes: Vec<Value>,
    pub claims: Vec<Value>,
    pub pools: Vec<Value>,
    pub daemon_sets: Vec<Value>,
    pub budgets: Vec<Value>,
    pub usages: Vec<Value>,
    pub volume_claims: Vec<Value>,
    pub volumes: Vec<Value>,
    pub storage_classes: Vec<Value>,
    pub csi_nodes: Vec<Value>,
    pub namespaces: Vec<Value>,
    pub overlays: Vec<Value>,
    pub buffers: Vec<Value>,
    pub requests: Vec<Value>,
    pub spend_policies: Vec<Value>,
    pub commitments: Vec<Value>,
    pub pod_templates: Vec<Value>,
    pub deployments: Vec<Value>,
    pub limit_ranges: Vec<Value>,
    pub runtime_classes: Vec<Value>,
    pub priority_classes: Vec<Value>,
    pub nominations: Vec<(&'static str, &'static str)>,
    pub now: Option<&'static str>,
    /// Catalogue that replaces [`catalogue`].
    pub catalogue: Option<Catalogue>,
    pub settings: Settings,
}

fn read<T: DeserializeOwned>(values: &[Value]) -> Vec<Arc<T>> {
    values.iter().map(|value| Arc::new(serde_json::from_value(value.clone()).unwrap())).collect()
}

impl Cluster {
    pub fn build(&self) -> SnapshotResult {
        self.build_with(&mut SnapshotCache::default())
    }

    pub fn build_with(&self, memory: &mut SnapshotCache) -> SnapshotResult {
        let objects = self.objects();
        memory.build(&self.input(&objects))
    }

    pub fn objects(&self) -> Objects {
        Objects {
            pods: read(&self.pods),
            nodes: read(&self.nodes),
            claims: read(&self.claims),
            pools: read(&self.pools),
            daemon_sets: read(&self.daemon_sets),
            budgets: read(&self.budgets),
            usages: read(&self.usages),
            volume_claims: read(&self.volume_claims),
            volumes: read(&self.volumes),
            storage_classes: read(&self.storage_classes),
            csi_nodes: read(&self.csi_nodes),
            namespaces: read(&self.namespaces),
            overlays: read(&self.overlays),
            buffers: read(&self.buffers),
            requests: read(&self.requests),
            spend_policies: read(&self.spend_policies),
            commitments: read(&self.commitments),
            pod_templates: read(&self.pod_templates),
            deployments: read(&self.deployments),
            limit_ranges: read(&self.limit_ranges),
            runtime_classes: read(&self.runtime_classes),
            priority_classes: read(&self.priority_classes),
            catalogue: Arc::new(self.catalogue.clone().unwrap_or_else(catalogue)),
        }
    }

    pub fn input<'a>(&self, objects: &'a Objects) -> Input<'a> {
        let now: Timestamp = self.now.unwrap_or(NOW).parse().unwrap();
        let soon = now + jiff::SignedDuration::from_secs(20);
        Input {
            pods: objects.pods.iter().collect(),
            nodes: objects.nodes.iter().collect(),
            claims: objects.claims.iter().collect(),
            pools: objects.pools.iter().collect(),
            daemon_sets: objects.daemon_sets.iter().collect(),
            budgets: objects.budgets.iter().collect(),
            usages: objects.usages.iter().collect(),
            volume_claims: objects.volume_claims.iter().collect(),
            volumes: objects.volumes.iter().collect(),
            storage_classes: objects.storage_classes.iter().collect(),
            csi_nodes: objects.csi_nodes.iter().collect(),
            namespaces: objects.namespaces.iter().collect(),
            overlays: objects.overlays.iter().collect(),
            buffers: objects.buffers.iter().collect(),
            requests: objects.requests.iter().collect(),
            spend_policies: objects.spend_policies.iter().collect(),
            commitments: objects.commitments.iter().collect(),
            pod_templates: objects.pod_templates.iter().collect(),
            deployments: objects.deployments.iter().collect(),
            limit_ranges: objects.limit_ranges.iter().collect(),
            runtime_classes: objects.runtime_classes.iter().collect(),
            priority_classes: objects.priority_classes.iter().collect(),
            catalogues: [("default".to_owned(), Arc::clone(&objects.catalogue))].into(),
            nominations: self.nominations.iter().map(|(pod, to)| ((*pod).to_owned(), (*to).to_owned())).collect(),
            nominated_until: self.nominations.iter().map(|(_, to)| ((*to).to_owned(), soon)).collect(),
            settings: self.settings,
            ..Input::at(now)
        }
    }
}

/// The parsed objects of a cluster.
#[derive(Clone)]
pub struct Objects {
    pub pods: Vec<Arc<Pod>>,
    pub nodes: Vec<Arc<Node>>,
    pub claims: Vec<Arc<NodeClaim>>,
    pub pools: Vec<Arc<NodePool>>,
    pub daemon_sets: Vec<Arc<DaemonSet>>,
    pub budgets: Vec<Arc<PodDisruptionBudget>>,
    pub usages: Vec<Arc<NodeReport>>,
    pub volume_claims: Vec<Arc<PersistentVolumeClaim>>,
    pub volumes: Vec<Arc<PersistentVolume>>,
    pub storage_classes: Vec<Arc<StorageClass>>,
    pub csi_nodes: Vec<Arc<CSINode>>,
    pub namespaces: Vec<Arc<Namespace>>,
    pub overlays: Vec<Arc<NodeOverlay>>,
    pub buffers: Vec<Arc<CapacityBuffer>>,
    pub requests: Vec<Arc<ProvisioningRequest>>,
    pub spend_policies: Vec<Arc<SpendPolicy>>,
    pub commitments: Vec<Arc<Commitment>>,
    pub pod_templates: Vec<Arc<PodTemplate>>,
    pub deployments: Vec<Arc<Deployment>>,
    pub limit_ranges: Vec<Arc<LimitRange>>,
    pub runtime_classes: Vec<Arc<RuntimeClass>>,
    pub priority_classes: Vec<Arc<PriorityClass>>,
    pub catalogue: Arc<Catalogue>,
}

fn kind(name: &str, cpus: i64) -> InstanceType {
    let amounts =
        |cpu| Resources::from_iter([(Resources::CPU, cpu), (Resources::MEMORY, cpus << 32), (Resources::PODS, 58)]);
    let sold = |zone: &str, capacity_type, price| Offering {
        zone: zone.to_owned(),
        capacity_type,
        price: MicroDollars(price * cpus),
        premium: MicroDollars(0),
        available: true,
        labels: Default::default(),
        reservation: None,
    };
    let label = |key: &str, value: &str| (key.to_owned(), vec![value.to_owned()]);
    InstanceType {
        name: name.to_owned(),
        labels: [
            label(api::label::ARCH, "amd64"),
            label(api::label::INSTANCE_TYPE, name),
            label(api::label::INSTANCE_CPU, &cpus.to_string()),
        ]
        .into(),
        capacity: amounts(cpus * 1000),
        allocatable: amounts(cpus * 1000 - 100),
        offerings: vec![
            sold("us-west-2a", CapacityType::OnDemand, 50_000),
            sold("us-west-2a", CapacityType::Spot, 20_000),
            sold("us-west-2b", CapacityType::Spot, 21_000),
        ],
        ..InstanceType::default()
    }
}

/// Returns reserved capacity of type `m7i.2xlarge`.
fn reserved(id: &str, remaining: u32) -> Offering {
    Offering {
        zone: "us-west-2b".to_owned(),
        capacity_type: CapacityType::Reserved,
        price: MicroDollars(0),
        premium: MicroDollars(0),
        available: false,
        labels: [(api::label::CAPACITY_RESERVATION_ID.to_owned(), id.to_owned())].into(),
        reservation: Some(Reservation { id: id.to_owned(), remaining }),
    }
}

pub fn catalogue() -> Catalogue {
    let mut types = vec![kind("m7i.2xlarge", 8), kind("m7i.large", 2), kind("m7i.xlarge", 4)];
    types[0].offerings.extend([reserved("cr-1", 5), reserved("cr-2", 1)]);
    Catalogue { name: "default".to_owned(), types, ..Catalogue::default() }
}

/// Returns a ready NodePool with EC2NodeClass `default`, with changes merged into its spec.
pub fn pool(name: &str, spec: Value) -> Value {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let own = json!({
        "template": {"spec": {"requirements": [], "nodeClassRef": class}},
        "disruption": {"consolidateAfter": "30s"},
    });
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": name, "uid": name},
        "spec": merged(own, spec),
        "status": {"conditions": [condition("Ready", "True")]},
    })
}

pub fn condition(type_: &str, status: &str) -> Value {
    json!({"type": type_, "status": status, "reason": type_, "message": "", "lastTransitionTime": "2026-01-01T11:00:00Z"})
}

/// Returns an unschedulable pod, with changes merged into its spec.
pub fn pending(name: &str, cpu: &str, spec: Value) -> Value {
    let refused = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}"), "creationTimestamp": "2026-01-01T11:59:00Z"},
        "spec": merged(json!({"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}), spec),
        "status": {"phase": "Pending", "conditions": [refused]},
    })
}

/// Returns a running pod on a node, with changes merged into its metadata.
pub fn running(name: &str, node: &str, cpu: &str, metadata: Value) -> Value {
    let own = json!({"name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": {"app": name}});
    json!({
        "metadata": merged(own, metadata),
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running", "startTime": "2026-01-01T11:50:00Z"},
    })
}

/// Returns the same pod with condition `Ready`.
pub fn ready(pod: Value) -> Value {
    merged(pod, json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}))
}

pub fn owned_by(kind: &str) -> Value {
    json!({"ownerReferences": [{"apiVersion": if kind == "Node" { "v1" } else { "apps/v1" }, "kind": kind, "name": "owner", "uid": "owner", "controller": true}]})
}

/// Returns an initialized node of NodePool `default` with its NodeClaim, with changes merged into the Node.
pub fn machine(name: &str, node: Value) -> (Value, Value) {
    let labels = json!({
        "karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
        "node.kubernetes.io/instance-type": "m7i.xlarge", "karpenter.sh/capacity-type": "spot",
        "topology.kubernetes.io/zone": "us-west-2a", "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64",
    });
    let amounts = json!({"cpu": "4", "memory": "16Gi", "pods": "58"});
    let own = json!({
        "metadata": {"name": name, "uid": name, "labels": labels},
        "spec": {"providerID": format!("aws:///us-west-2a/i-{name}")},
        "status": {"capacity": amounts, "allocatable": {"cpu": "3900m", "memory": "15Gi", "pods": "58"},
                   "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let mut claim = claim(&format!("claim-{name}"), json!([]));
    claim["status"] = json!({
        "nodeName": name, "providerID": format!("aws:///us-west-2a/i-{name}"), "capacity": amounts,
        "allocatable": {"cpu": "3900m", "memory": "15Gi", "pods": "58"},
        "lastPodEventTime": "2026-01-01T11:30:00Z",
        "conditions": [condition("Launched", "True"), condition("Registered", "True"), condition("Initialized", "True")],
    });
    (merged(own, node), claim)
}

/// Returns a NodeClaim of NodePool `default` that has not been launched.
pub fn claim(name: &str, requirements: Value) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "uid": name, "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {
            "requirements": requirements,
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        },
    })
}

/// Returns a PodDisruptionBudget in the pods' namespace.
pub fn guard(name: &str, selector: Value, status: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": selector}, "status": status})
}

/// Returns an agent's report of a node's utilization, with changes merged into the spec.
pub fn usage(node: &str, measured_at: &str, spec: Value) -> Value {
    let figures = |p95: &str| json!({"p50": "0", "p95": p95, "p99": p95, "peak5m": p95, "peak1h": p95, "peak24h": p95});
    let own = json!({
        "instance": format!("i-{node}"), "measuredAt": measured_at, "since": "2026-01-01T00:00:00Z",
        "cpu": figures("1500m"), "memory": figures("6Gi"), "throttled": 0, "oomKills": 0,
        "histograms": {"cpu": "", "memory": "", "joint": ""}, "pods": "AQ",
    });
    json!({"metadata": {"name": node}, "spec": merged(own, spec)})
}

/// Applies a JSON merge patch.
pub fn merged(mut own: Value, changes: Value) -> Value {
    json_patch::merge(&mut own, &changes);
    own
}
