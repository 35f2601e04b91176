//! How long it takes to take a snapshot from objects in memory, and how much memory it needs: `cargo bench -p snapshot`.
//!
//! A cluster of as many pods as the issue speaks of, 20 on a node, of 200 workloads and four DaemonSets; one pod in
//! twenty has a volume, each workload a PodDisruptionBudget, each node a report of its use. "first" translates everything,
//! "again" what is left to do when a hundred pods, ten nodes, ten budgets' figures and twenty reports have changed, in milliseconds of one processor. Bytes are what the process grew by, from the objects to the snapshot. Figures are for comparing two versions
//! of this program in one run on one machine, not for quoting.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the benchmark")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use api::objects::{CSINode, Node, NodeReport, PersistentVolume, PersistentVolumeClaim, Pod, PodDisruptionBudget};
use api::{NodeClaim, NodePool};
use jiff::Timestamp;
use planner::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering, Resources};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use snapshot::{Input, SnapshotCache};

const RUNS: usize = 21;
const PODS_ON_A_NODE: usize = 20;
const DAEMONS: usize = 4;
const WORKLOADS: usize = 200;
const TYPES: usize = 700;
const ZONES: [&str; 3] = ["a", "b", "c"];

struct Fixture {
    pods: Vec<Arc<Pod>>,
    nodes: Vec<Arc<Node>>,
    claims: Vec<Arc<NodeClaim>>,
    volume_claims: Vec<Arc<PersistentVolumeClaim>>,
    volumes: Vec<Arc<PersistentVolume>>,
    csi_nodes: Vec<Arc<CSINode>>,
    budgets: Vec<Arc<PodDisruptionBudget>>,
    usages: Vec<Arc<NodeReport>>,
    pools: Vec<Arc<NodePool>>,
    catalogue: Arc<Catalogue>,
}

fn main() {
    println!(
        "{:>8} {:>8} {:>10} {:>10} {:>8} {:>12}",
        "nodes", "pods", "first ms", "again ms", "shapes", "bytes a pod"
    );
    for nodes in [500, 5_000] {
        let mut fixture = Fixture::of(nodes);
        let before = resident();
        let mut memory = SnapshotCache::default();
        let started = on_cpu();
        let first = memory.build(&fixture.input());
        let first_took = on_cpu() - started;
        let bytes = resident().saturating_sub(before) / fixture.pods.len();
        let mut times: Vec<Duration> = (0..RUNS)
            .map(|run| {
                fixture.change(run);
                let started = on_cpu();
                let built = memory.build(&black_box(fixture.input()));
                let took = on_cpu() - started;
                drop(black_box(built));
                took
            })
            .collect();
        times.sort();
        let again = times[RUNS / 2].as_secs_f64() * 1000.0;
        let shapes = first.snapshot.nodes.iter().flat_map(|node| &node.pods).map(|pod| Arc::as_ptr(&pod.shape));
        let shapes = shapes.collect::<std::collections::BTreeSet<_>>().len();
        let pods = fixture.pods.len();
        println!("{nodes:>8} {pods:>8} {:>10} {again:>10.1} {shapes:>8} {bytes:>12}", first_took.as_millis());
    }
}

/// Time that the program has had a processor: other programs on the machine do not count.
fn on_cpu() -> Duration {
    let times = std::fs::read_to_string("/proc/self/schedstat").unwrap();
    Duration::from_nanos(times.split_whitespace().next().unwrap().parse().unwrap())
}

/// Bytes that the process has in memory.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn read<T: DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

impl Fixture {
    fn of(nodes: usize) -> Self {
        let mut pods: Vec<Arc<Pod>> =
            (0..nodes * PODS_ON_A_NODE).map(|number| pod(number, number % nodes, number / nodes)).collect();
        pods.sort_by(|one, other| one.name().cmp(other.name()));
        let stored = (0..nodes * PODS_ON_A_NODE).filter(|number| has_volume(*number));
        let (volume_claims, volumes) = stored.map(volume).unzip();
        let (nodes, claims): (Vec<_>, Vec<_>) = (0..nodes).map(machine).unzip();
        let csi = |node: &Arc<Node>| {
            let driver = json!({"name": "ebs.csi.aws.com", "nodeID": "i", "allocatable": {"count": 25}});
            read(json!({"metadata": {"name": node.name()}, "spec": {"drivers": [driver]}}))
        };
        let csi_nodes = nodes.iter().map(csi).collect();
        let budgets = (0..WORKLOADS).map(|workload| budget(workload, 1)).collect();
        let usages = nodes.iter().map(|node| usage(node.name())).collect();
        let pools = vec![pool()];
        let catalogue = Arc::new(catalogue());
        Self { pods, nodes, claims, volume_claims, volumes, csi_nodes, budgets, usages, pools, catalogue }
    }

    fn input(&self) -> Input<'_> {
        Input {
            pods: self.pods.iter().collect(),
            nodes: self.nodes.iter().collect(),
            claims: self.claims.iter().collect(),
            volume_claims: self.volume_claims.iter().collect(),
            volumes: self.volumes.iter().collect(),
            csi_nodes: self.csi_nodes.iter().collect(),
            budgets: self.budgets.iter().collect(),
            usages: self.usages.iter().collect(),
            pools: self.pools.iter().collect(),
            catalogues: [("default".to_owned(), Arc::clone(&self.catalogue))].into(),
            ..Input::at(Timestamp::from_second(1_767_268_800).unwrap())
        }
    }

    /// A hundred pods, ten nodes and twenty reports become new versions of themselves; ten budgets have other figures, one of
    /// them lets go no more, and one lets go again.
    fn change(&mut self, run: usize) {
        let (pods, nodes) = (self.pods.len(), self.nodes.len());
        for number in 0..100 {
            let pod = &mut self.pods[(run * 7919 + number * 997) % pods];
            *pod = Arc::new(Pod::clone(pod));
        }
        for number in 0..10 {
            let node = &mut self.nodes[(run * 31 + number * 101) % nodes];
            *node = Arc::new(Node::clone(node));
        }
        for number in 0..20 {
            let usage = &mut self.usages[(run * 17 + number * 103) % nodes];
            *usage = Arc::new(NodeReport::clone(usage));
        }
        for number in 0..10 {
            self.budgets[(run + number) % WORKLOADS] =
                budget((run + number) % WORKLOADS, if number == 9 { 0 } else { 2 });
        }
    }
}

fn has_volume(number: usize) -> bool {
    number % 20 == 7
}

fn pod(number: usize, node: usize, place: usize) -> Arc<Pod> {
    let daemon = place < DAEMONS;
    let (kind, owner) = if daemon { ("DaemonSet", place) } else { ("ReplicaSet", number % WORKLOADS) };
    let app = format!("{}-{owner}", kind.to_lowercase());
    let selector = json!({"matchLabels": {"app": app}});
    let spread = json!([{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}]);
    let volumes = match has_volume(number) {
        true => json!([{"name": "data", "persistentVolumeClaim": {"claimName": format!("claim-{number}")}}]),
        false => json!([]),
    };
    read(json!({
        "metadata": {
            "name": format!("{app}-6d4cf56db6-{number:06}"), "namespace": "production", "resourceVersion": "123456",
            "uid": format!("0b2d6f5e-9a64-4f0b-8d0e-{number:012}"), "creationTimestamp": "2026-01-01T10:00:00Z",
            "labels": {"app": app, "pod-template-hash": "6d4cf56db6"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": kind, "name": app, "uid": app, "controller": true}],
        },
        "spec": {
            "nodeName": format!("node-{node:05}"), "volumes": volumes,
            "topologySpreadConstraints": if daemon { json!([]) } else { spread },
            "containers": [{"name": "main", "resources": {"requests": {"cpu": format!("{}m", 50 + owner), "memory": "256Mi"}}}],
        },
        "status": {"phase": "Running", "startTime": "2026-01-01T10:00:00Z"},
    }))
}

fn volume(number: usize) -> (Arc<PersistentVolumeClaim>, Arc<PersistentVolume>) {
    let bound = json!({"pv.kubernetes.io/bind-completed": "yes"});
    let zone = json!([{"key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": [ZONES[number % 3]]}]);
    let claim = json!({
        "metadata": {"name": format!("claim-{number}"), "namespace": "production", "annotations": bound},
        "spec": {"volumeName": format!("pv-{number}")},
    });
    let volume = json!({
        "metadata": {"name": format!("pv-{number}")},
        "spec": {
            "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": format!("vol-{number}")},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": zone}]}},
        },
    });
    (read(claim), read(volume))
}

fn budget(workload: usize, allowed: u8) -> Arc<PodDisruptionBudget> {
    let app = format!("replicaset-{workload}");
    read(json!({
        "metadata": {"name": app, "namespace": "production"}, "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }))
}

fn usage(node: &str) -> Arc<NodeReport> {
    let figures = json!({"p50": "1", "p95": "2", "p99": "2", "peak5m": "2", "peak1h": "2", "peak24h": "2"});
    let histograms = json!({"cpu": "", "memory": "", "joint": ""});
    let spec = json!({
        "instance": node, "measuredAt": "2026-01-01T11:58:00Z", "since": "2026-01-01T11:00:00Z", "cpu": figures, "memory": figures,
        "throttled": 0, "oomKills": 0, "histograms": histograms, "pods": "AQ",
    });
    read(json!({"metadata": {"name": node}, "spec": spec}))
}

fn machine(number: usize) -> (Arc<Node>, Arc<NodeClaim>) {
    let name = format!("node-{number:05}");
    let amounts = json!({"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    let node = json!({
        "metadata": {"name": name, "uid": name, "labels": {
            "karpenter.sh/nodepool": "default", "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
            "node.kubernetes.io/instance-type": format!("t{:03}.large", number % TYPES), "kubernetes.io/arch": "amd64",
            "karpenter.sh/capacity-type": "spot", "topology.kubernetes.io/zone": ZONES[number % 3], "kubernetes.io/hostname": name,
        }},
        "spec": {"providerID": format!("aws:///a/i-{number}")},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let settled = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": "2026-01-01T09:00:00Z"});
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("claim-{number:05}"), "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
        "status": {
            "nodeName": name, "providerID": format!("aws:///a/i-{number}"), "capacity": amounts, "allocatable": amounts,
            "conditions": [settled("Launched"), settled("Registered"), settled("Initialized")],
        },
    });
    (read(node), read(claim))
}

fn pool() -> Arc<NodePool> {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let ready = json!({"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T09:00:00Z"});
    read(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}, "disruption": {"consolidateAfter": "30s"}},
        "status": {"conditions": [ready]},
    }))
}

fn catalogue() -> Catalogue {
    let amounts =
        Resources::from_iter([(Resources::CPU, 16_000), (Resources::MEMORY, 64 << 30), (Resources::PODS, 110)]);
    let offering = |zone: &&str| Offering {
        zone: (*zone).to_owned(),
        capacity_type: CapacityType::Spot,
        price: MicroDollars(100_000),
        premium: MicroDollars(0),
        available: true,
        labels: Default::default(),
        reservation: None,
    };
    let kind = |number: usize| InstanceType {
        name: format!("t{number:03}.large"),
        capacity: amounts.clone(),
        allocatable: amounts.clone(),
        offerings: ZONES.iter().map(offering).collect(),
        ..InstanceType::default()
    };
    Catalogue { name: "default".to_owned(), types: (0..TYPES).map(kind).collect(), ..Catalogue::default() }
}
