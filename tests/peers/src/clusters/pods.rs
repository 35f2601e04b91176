//! Pods by workload: each workload has a few pods with the same constraints.

use serde_json::{Value, json};

use super::Cluster;
use super::Dice;
use super::catalogue::{DEVICES, GPU};
use super::extras::OVERLAID;
use super::kinds::{Kind, Kinds};
use super::selectors::{APPS, node_selector, node_term, pod_term, spread};
use super::storage::{self, Source};

/// Common properties of the pods of one workload.
pub(super) struct Workload {
    name: String,
    namespace: &'static str,
    labels: Value,
    spec: Value,
    volume: Option<Source>,
}

/// Adds one to four workloads of pods that kube-scheduler marked as unschedulable.
pub(super) fn add_pending(dice: &mut Dice, cluster: &mut Cluster) {
    for number in 0..dice.between(1, 4) {
        let workload = Workload::new(dice, cluster.kinds, &format!("new-{number}"));
        let gated = cluster.kinds.has(Kind::Idle) && dice.chance(20);
        for position in 0..dice.between(1, 5) {
            let mut pod = workload.pod(position);
            let refused = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
            pod["status"] = json!({"phase": "Pending", "conditions": [refused]});
            if gated {
                pod["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
            }
            if let Some(source) = workload.volume {
                storage::attach(dice, cluster, &mut pod, source, None);
            }
            cluster.pending.push(pod);
        }
    }
}

/// Adds the first pod of a workload as a running pod of a node; its volume is in the node's zone.
pub(super) fn add_bound(dice: &mut Dice, cluster: &mut Cluster, number: usize, node: &str, zone: &str) {
    let workload = Workload::new(dice, cluster.kinds, &format!("old-{number}"));
    let mut pod = workload.pod(0);
    pod["spec"]["nodeName"] = json!(node);
    pod["status"] = json!({"phase": "Running", "startTime": "2026-01-01T11:00:00Z"});
    let ending = cluster.kinds.has(Kind::Ending) && dice.chance(25);
    if workload.volume.is_some() && !ending {
        storage::attach(dice, cluster, &mut pod, Source::Bound, Some(zone));
    }
    if cluster.kinds.has(Kind::Idle) && dice.chance(20) {
        pod["status"]["phase"] = json!("Succeeded");
    }
    if ending {
        // Its ports and volumes would stay in use until it ends, but the oracle only accounts for its requests.
        pod["spec"]["containers"][0]["ports"] = json!([]);
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T11:59:50Z");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    }
    cluster.bound.push(pod);
}

impl Workload {
    pub(super) fn new(dice: &mut Dice, kinds: Kinds, name: &str) -> Self {
        let app = *dice.one(&APPS);
        let mut labels = json!({"app": app, "workload": name});
        if dice.chance(50) {
            labels["version"] = json!(dice.one(&["v1", "v2"]));
        }
        if dice.chance(30) {
            labels["tier"] = json!("front");
        }
        let namespace = if kinds.has(Kind::Namespaces) { *dice.one(&["default", "blue", "green"]) } else { "default" };
        let sources = [Source::Bound, Source::Waiting, Source::Shared, Source::Ephemeral];
        let volume = has(dice, kinds, Kind::Volumes).then(|| *dice.one(&sources));
        Self { name: name.to_owned(), namespace, labels, spec: spec(dice, kinds, app), volume }
    }

    /// Returns the pod template.
    pub(super) fn template(&self) -> Value {
        json!({"metadata": {"labels": self.labels}, "spec": self.spec})
    }

    fn pod(&self, position: u32) -> Value {
        let name = format!("{}-{position}", self.name);
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": self.namespace, "uid": format!("uid-{name}"), "labels": self.labels,
                "creationTimestamp": "2026-01-01T11:59:00Z",
            },
            "spec": self.spec,
        })
    }
}

/// Draws whether this workload has a constraint of a kind that the cluster permits.
pub(super) fn has(dice: &mut Dice, kinds: Kinds, kind: Kind) -> bool {
    kinds.has(kind) && dice.chance(45)
}

fn spec(dice: &mut Dice, kinds: Kinds, app: &str) -> Value {
    let mut spec = json!({"containers": [container(dice, "main")]});
    if has(dice, kinds, Kind::Selectors) {
        spec["nodeSelector"] = node_selector(dice);
    }
    affinity(dice, kinds, app, &mut spec);
    if has(dice, kinds, Kind::Taints) {
        spec["tolerations"] = json!([toleration(dice)]);
    }
    spreads(dice, kinds, app, &mut spec);
    if has(dice, kinds, Kind::Ports) {
        spec["containers"][0]["ports"] = json!([port(dice)]);
    }
    if kinds.has(Kind::Priorities) {
        spec["priority"] = json!(dice.one(&[0, 0, 100]));
    }
    if kinds.has(Kind::Extended) && dice.chance(25) {
        spec["containers"][0]["resources"]["requests"][GPU] = json!("1");
        spec["containers"][0]["resources"]["limits"][GPU] = json!("1");
    }
    if has(dice, kinds, Kind::Requests) {
        odd_requests(dice, &mut spec);
    }
    if kinds.has(Kind::Devices) && dice.chance(25) {
        let (device, amount) = *dice.one(&DEVICES);
        spec["containers"][0]["resources"]["requests"][device] = json!(amount);
        spec["containers"][0]["resources"]["limits"][device] = json!(amount);
    }
    if kinds.has(Kind::Overlays) && dice.chance(15) {
        spec["containers"][0]["resources"]["requests"][OVERLAID] = json!("1");
        spec["containers"][0]["resources"]["limits"][OVERLAID] = json!("1");
    }
    spec
}

fn affinity(dice: &mut Dice, kinds: Kinds, app: &str, spec: &mut Value) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let mut affinity = json!({});
    if has(dice, kinds, Kind::Affinity) {
        let count = dice.between(1, 3);
        let terms: Vec<Value> = (0..count).map(|_| node_term(dice)).collect();
        affinity["nodeAffinity"][required] = json!({"nodeSelectorTerms": terms});
    }
    if has(dice, kinds, Kind::Near) {
        let count = *dice.one(&[1, 1, 2]);
        let terms: Vec<Value> = (0..count).map(|_| pod_term(dice, kinds, app)).collect();
        affinity["podAffinity"][required] = json!(terms);
    }
    if has(dice, kinds, Kind::Apart) {
        let count = *dice.one(&[1, 1, 2]);
        let terms: Vec<Value> = (0..count).map(|_| pod_term(dice, kinds, app)).collect();
        affinity["podAntiAffinity"][required] = json!(terms);
    }
    if has(dice, kinds, Kind::Preferences) {
        let weight = dice.between(1, 100);
        match dice.between(0, 2) {
            0 => affinity["nodeAffinity"][preferred] = json!([{"weight": weight, "preference": node_term(dice)}]),
            1 => {
                let term = pod_term(dice, kinds, app);
                affinity["podAffinity"][preferred] = json!([{"weight": weight, "podAffinityTerm": term}]);
            }
            _ => {
                let term = pod_term(dice, kinds, app);
                affinity["podAntiAffinity"][preferred] = json!([{"weight": weight, "podAffinityTerm": term}]);
            }
        }
    }
    if affinity != json!({}) {
        spec["affinity"] = affinity;
    }
}

fn spreads(dice: &mut Dice, kinds: Kinds, app: &str, spec: &mut Value) {
    let mut all: Vec<Value> = Vec::new();
    if has(dice, kinds, Kind::Spread) {
        for _ in 0..*dice.one(&[1, 1, 2]) {
            all.push(spread(dice, app, true));
        }
    }
    if kinds.has(Kind::Preferences) && dice.chance(25) {
        all.push(spread(dice, app, false));
    }
    // The API server accepts each pair of topology key and `whenUnsatisfiable` once.
    let mut kept: Vec<Value> = Vec::new();
    for spread in all {
        let same = |it: &Value| {
            it["topologyKey"] == spread["topologyKey"] && it["whenUnsatisfiable"] == spread["whenUnsatisfiable"]
        };
        if !kept.iter().any(same) {
            kept.push(spread);
        }
    }
    if !kept.is_empty() {
        spec["topologySpreadConstraints"] = json!(kept);
    }
}

fn container(dice: &mut Dice, name: &str) -> Value {
    let cpu = *dice.one(&["100m", "250m", "500m", "1", "1500m", "3"]);
    let memory = *dice.one(&["128Mi", "512Mi", "2Gi", "6Gi"]);
    json!({"name": name, "image": "image", "resources": {"requests": {"cpu": cpu, "memory": memory}}})
}

/// Sets requests that are not simply the sum over the containers.
fn odd_requests(dice: &mut Dice, spec: &mut Value) {
    match dice.between(0, 4) {
        0 => spec["initContainers"] = json!([container(dice, "first")]),
        1 => {
            let mut sidecar = container(dice, "beside");
            sidecar["restartPolicy"] = json!("Always");
            spec["initContainers"] = json!([sidecar, container(dice, "then")]);
        }
        2 => spec["overhead"] = json!({"cpu": "250m", "memory": "64Mi"}),
        3 => spec["containers"][0]["resources"] = json!({"limits": {"cpu": "1", "memory": "1Gi"}}),
        _ => spec["resources"] = json!({"requests": {"cpu": "3500m", "memory": "7Gi"}}),
    }
}

fn toleration(dice: &mut Dice) -> Value {
    let value = *dice.one(&["web", "db"]);
    match dice.between(0, 3) {
        0 => json!({"operator": "Exists"}),
        1 => json!({"key": "dedicated", "operator": "Exists"}),
        2 => json!({"key": "dedicated", "operator": "Equal", "value": value}),
        _ => json!({"key": "dedicated", "value": value, "effect": dice.one(&["NoSchedule", "NoExecute"])}),
    }
}

pub(super) fn port(dice: &mut Dice) -> Value {
    let mut port = json!({"containerPort": 80, "hostPort": dice.one(&[8080, 8080, 8081])});
    match dice.between(0, 5) {
        0 => port["hostIP"] = json!("10.0.0.1"),
        1 => port["hostIP"] = json!("10.0.0.2"),
        2 => port["protocol"] = json!("UDP"),
        _ => {}
    }
    port
}
