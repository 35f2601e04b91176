//! Existing nodes, some with a NodeClaim, and their pods.

use api::{label, quantity};
use planner::{CapacityType, InstanceType, Offering, Resources};
use serde_json::{Map, Value, json};

use super::Dice;
use super::kinds::{Kind, Kinds};
use super::{CLASS, Cluster, DRIVER, RACK, RACKS, ZONES, pods, pools, storage};

/// Stage in the lifecycle of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Not managed by Kerf.
    Foreign,
    /// Managed; EC2 has not chosen the offering yet.
    Open,
    /// Managed, without a Node.
    Launched,
    /// Managed, with startup taints.
    Registered,
    /// Managed and initialized.
    Initialized,
    /// Managed and being deleted.
    Leaving,
}

/// Adds one to four nodes with pods on them.
pub(super) fn add(dice: &mut Dice, cluster: &mut Cluster) {
    for number in 0..dice.between(1, 4) {
        let kind = dice.one(&cluster.catalogue.types).clone();
        if kind.offerings.is_empty() {
            continue;
        }
        let offering = dice.one(&kind.offerings).clone();
        let stage = stage(dice, cluster.kinds);
        if stage == Stage::Open {
            add_open(dice, cluster, &format!("claim-{number}"), &kind);
            continue;
        }
        // Plans refer to the NodeClaim until there is a Node.
        let name = if stage == Stage::Launched { format!("claim-{number}") } else { format!("node-{number}") };
        let node = node(dice, cluster.kinds, &name, &kind, &offering, stage != Stage::Foreign);
        if stage != Stage::Foreign {
            cluster.node_claims.push(claim(&node, stage));
        }
        if cluster.kinds.has(Kind::Volumes) {
            attach_limit(dice, cluster, &name, &kind, stage);
        }
        let tainted = node["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
        let labels = node["metadata"]["labels"].clone();
        stand(cluster, &name, node, stage);
        if !matches!(stage, Stage::Launched | Stage::Registered) {
            add_daemons(cluster, &name, &labels, tainted);
            for _ in 0..dice.between(0, 3) {
                let number = cluster.bound.len();
                pods::add_bound(dice, cluster, number, &name, &offering.zone);
            }
        }
    }
}

fn stage(dice: &mut Dice, kinds: Kinds) -> Stage {
    let mut stages = vec![Stage::Foreign, Stage::Initialized];
    if kinds.has(Kind::Starting) {
        stages.extend([Stage::Launched, Stage::Registered]);
    }
    if kinds.has(Kind::Starting) && kinds.has(Kind::Open) {
        stages.extend([Stage::Open, Stage::Open]);
    }
    if kinds.has(Kind::Leaving) {
        stages.push(Stage::Leaving);
    }
    *dice.one(&stages)
}

/// Adds a NodeClaim with a fixed instance type. Its zone and capacity type are open: EC2 chooses one of the permitted
/// offerings.
fn add_open(dice: &mut Dice, cluster: &mut Cluster, name: &str, kind: &InstanceType) {
    let zones = dice.some(&ZONES);
    let sold = kind.offerings.iter().filter(|it| zones.contains(&it.zone.as_str()) && it.reservation.is_none());
    let sold: Vec<&Offering> = sold.collect();
    let Some(first) = sold.first() else { return };
    let node = arriving(node(dice, cluster.kinds, name, kind, first, true));
    let become_of = |offering: &&Offering| {
        let mut node = node.clone();
        if let Some(labels) = node["metadata"]["labels"].as_object_mut() {
            labels.extend(machine_labels(name, kind, offering));
        }
        node
    };
    cluster.open.push(sold.iter().map(become_of).collect());
    let mut claim = claim(&node, Stage::Open);
    let own = [label::NODEPOOL, RACK];
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let kept: Map<String, Value> = labels
        .filter(|(key, _)| own.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    claim["metadata"]["labels"] = Value::Object(kept);
    let bought = [CapacityType::Spot, CapacityType::OnDemand].map(CapacityType::as_str);
    claim["spec"]["requirements"] = json!([
        {"key": label::INSTANCE_TYPE, "operator": "In", "values": [kind.name]},
        {"key": label::ZONE, "operator": "In", "values": zones},
        {"key": label::CAPACITY_TYPE, "operator": "In", "values": bought},
    ]);
    claim["status"] = json!({});
    cluster.node_claims.push(claim);
    let limit = kind.attach_limits.get(DRIVER);
    cluster.settled_csi_nodes.extend(limit.map(|limit| storage::csi_node(name, *limit)));
}

/// Adds the Node in its current and in its final state.
fn stand(cluster: &mut Cluster, name: &str, node: Value, stage: Stage) {
    match stage {
        Stage::Foreign | Stage::Initialized => {
            cluster.settled.push(node.clone());
            cluster.nodes.push(node);
        }
        Stage::Open | Stage::Launched => cluster.settled.push(arriving(node)),
        Stage::Registered => {
            let mut now = node.clone();
            if let Some(labels) = now["metadata"]["labels"].as_object_mut() {
                labels.remove(label::INITIALIZED);
            }
            if let Some(taints) = now["spec"]["taints"].as_array_mut() {
                taints.push(json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}));
                taints.push(start_taint());
            }
            cluster.settled.push(arriving(node));
            cluster.nodes.push(now);
        }
        Stage::Leaving => {
            cluster.leaving.push(name.to_owned());
            cluster.nodes.push(node);
        }
    }
}

/// Marks a node that becomes ready later.
fn arriving(mut node: Value) -> Value {
    node["arriving"] = json!(true);
    node
}

/// Sets how many volumes the node can attach: by its CSINode, if the driver has registered; otherwise by the instance type.
fn attach_limit(dice: &mut Dice, cluster: &mut Cluster, node: &str, kind: &InstanceType, stage: Stage) {
    if stage != Stage::Launched && dice.chance(70) {
        let with_limit = storage::csi_node(node, i64::from(dice.between(1, 3)));
        cluster.csi_nodes.push(with_limit.clone());
        if stage != Stage::Leaving {
            cluster.settled_csi_nodes.push(with_limit);
        }
    } else if matches!(stage, Stage::Launched | Stage::Registered) {
        let limit = kind.attach_limits.get(DRIVER);
        cluster.settled_csi_nodes.extend(limit.map(|limit| storage::csi_node(node, *limit)));
    }
}

fn start_taint() -> Value {
    json!({"key": "example.com/start", "effect": "NoSchedule"})
}

/// Returns the labels of a node of one type and offering, as registration and the EBS CSI driver set them.
#[must_use]
pub fn machine_labels(name: &str, kind: &InstanceType, offering: &Offering) -> Map<String, Value> {
    let mut labels = Map::new();
    let mut set = |key: &str, value: &str| labels.insert(key.to_owned(), json!(value));
    for (key, values) in &kind.labels {
        if let [value] = values.as_slice() {
            set(key, value);
        }
    }
    for (key, value) in &offering.labels {
        set(key, value);
    }
    set(label::INSTANCE_TYPE, &kind.name);
    set(label::ZONE, &offering.zone);
    set(label::EBS_CSI_ZONE, &offering.zone);
    set(label::CAPACITY_TYPE, offering.capacity_type.as_str());
    set(label::HOSTNAME, name);
    if let Some(reservation) = &offering.reservation {
        set(planner::label::RESERVATION_ID, &reservation.id);
    }
    labels
}

/// Returns quantities in the form of a Node's status.
#[must_use]
pub fn amounts(resources: &Resources) -> Value {
    resources.iter().map(|(name, amount)| (name.to_owned(), json!(quantity::text(name, amount)))).collect()
}

fn node(dice: &mut Dice, kinds: Kinds, name: &str, kind: &InstanceType, offering: &Offering, managed: bool) -> Value {
    let mut labels = machine_labels(name, kind, offering);
    if dice.chance(60) {
        labels.insert(RACK.to_owned(), json!(dice.one(&RACKS)));
    }
    if managed {
        labels.insert(label::NODEPOOL.to_owned(), json!("pool-0"));
        labels.insert(label::REGISTERED.to_owned(), json!(label::TRUE));
        labels.insert(label::INITIALIZED.to_owned(), json!(label::TRUE));
    } else if offering.capacity_type != CapacityType::OnDemand {
        // Only nodes of Kerf have a label with their capacity type.
        labels.remove(label::CAPACITY_TYPE);
    }
    let mut taints = pools::taints(dice, kinds);
    let cordoned = !managed && kinds.has(Kind::Taints) && dice.chance(20);
    if cordoned {
        taints.push(json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}));
    }
    let mut spec = json!({"providerID": format!("aws:///{}/i-{name}", offering.zone), "taints": taints});
    if cordoned {
        spec["unschedulable"] = json!(true);
    }
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name, "labels": labels}, "spec": spec,
        "status": {
            "capacity": amounts(&kind.capacity), "allocatable": amounts(&kind.allocatable),
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn claim(node: &Value, stage: Stage) -> Value {
    let reached: &[&str] = match stage {
        Stage::Open => &[],
        Stage::Launched => &["Launched"],
        Stage::Registered => &["Launched", "Registered"],
        _ => &["Launched", "Registered", "Initialized"],
    };
    let condition = |type_: &&str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": "2026-01-01T11:00:00Z"});
    let conditions: Vec<Value> = reached.iter().map(condition).collect();
    let node_name = node["metadata"]["name"].as_str().unwrap_or_default();
    let without_node = matches!(stage, Stage::Open | Stage::Launched);
    let own_name = if without_node { node_name.to_owned() } else { format!("claim-of-{node_name}") };
    let mut claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": own_name, "uid": own_name, "labels": claim_labels(node)},
        "spec": {
            "requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": CLASS},
            "taints": node["spec"]["taints"], "startupTaints": [start_taint()],
        },
        "status": {
            "providerID": node["spec"]["providerID"],
            "capacity": node["status"]["capacity"], "allocatable": node["status"]["allocatable"],
            "conditions": conditions,
        },
    });
    if !without_node {
        claim["status"]["nodeName"] = json!(node_name);
    }
    if stage == Stage::Leaving {
        claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T11:59:30Z");
    }
    claim
}

/// Returns the labels that a launch sets in its NodeClaim: those of the node, except for the ones that only the Node has.
fn claim_labels(node: &Value) -> Value {
    let mut labels = node["metadata"]["labels"].clone();
    if let Some(labels) = labels.as_object_mut() {
        for key in [label::HOSTNAME, label::EBS_CSI_ZONE, label::REGISTERED, label::INITIALIZED] {
            labels.remove(key);
        }
    }
    labels
}

/// Adds the DaemonSet pods that run on the node.
fn add_daemons(cluster: &mut Cluster, node: &str, labels: &Value, tainted: bool) {
    for set in &cluster.daemon_sets {
        let template = &set["spec"]["template"];
        let tolerated = !tainted || template["spec"]["tolerations"].is_array();
        let chosen = template["spec"]["nodeSelector"]
            .as_object()
            .is_none_or(|all| all.iter().all(|(key, value)| labels[key] == *value));
        if !tolerated || !chosen {
            continue;
        }
        let set_name = set["metadata"]["name"].as_str().unwrap_or_default();
        let name = format!("{set_name}-on-{node}");
        let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": set_name, "uid": set_name, "controller": true});
        let mut spec = template["spec"].clone();
        spec["nodeName"] = json!(node);
        cluster.bound.push(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": set["metadata"]["namespace"], "uid": format!("uid-{name}"), "labels": template["metadata"]["labels"],
                "ownerReferences": [owner],
            },
            "spec": spec, "status": {"phase": "Running"},
        }));
    }
}
