//! Nodes that exist, some with a NodeClaim, and what runs on them.

use api::{label, quantity};
use planner::{CapacityType, InstanceType, Offering, Resources};
use serde_json::{Map, Value, json};

use super::dice::Dice;
use super::kinds::{Kind, Kinds};
use super::{CLASS, Cluster, RACK, RACKS, pods, pools, storage};

/// Adds one to four nodes with pods on them.
pub(super) fn add(dice: &mut Dice, cluster: &mut Cluster) {
    for number in 0..dice.between(1, 4) {
        let kind = dice.one(&cluster.catalogue.types).clone();
        if kind.offerings.is_empty() {
            continue;
        }
        let offering = dice.one(&kind.offerings).clone();
        let name = format!("node-{number}");
        let managed = dice.chance(50);
        let node = node(dice, cluster.kinds, &name, &kind, &offering, managed);
        if managed {
            cluster.node_claims.push(claim(&node));
        }
        let tainted = node["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
        cluster.nodes.push(node);
        if cluster.kinds.has(Kind::Volumes) && dice.chance(70) {
            cluster.csi_nodes.push(storage::csi_node(&name, i64::from(dice.between(1, 3))));
        }
        add_daemons(dice, cluster, &name, tainted);
        for _ in 0..dice.between(0, 3) {
            let number = cluster.bound.len();
            pods::add_bound(dice, cluster, number, &name, &offering.zone);
        }
    }
}

/// The labels that a machine of one type and offering comes up with, as registration and EBS's driver write them.
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
    labels
}

/// Amounts as a Node's status writes them.
#[must_use]
pub fn amounts(resources: &Resources) -> Value {
    resources.iter().map(|(name, amount)| (name.to_owned(), json!(quantity::text(name, amount)))).collect()
}

fn node(
    dice: &mut Dice,
    kinds: Kinds,
    name: &str,
    kind: &InstanceType,
    offering: &Offering,
    managed: bool,
) -> Value {
    let mut labels = machine_labels(name, kind, offering);
    if dice.chance(60) {
        labels.insert(RACK.to_owned(), json!(dice.one(&RACKS)));
    }
    if managed {
        labels.insert(label::NODEPOOL.to_owned(), json!("pool-0"));
        labels.insert(label::REGISTERED.to_owned(), json!(label::TRUE));
        labels.insert(label::INITIALIZED.to_owned(), json!(label::TRUE));
    } else if offering.capacity_type != CapacityType::OnDemand {
        // Only Kerf's own nodes say how they were bought.
        labels.remove(label::CAPACITY_TYPE);
    }
    let mut taints = pools::taints(dice, kinds);
    let cordoned = kinds.has(Kind::Taints) && dice.chance(10);
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

fn claim(node: &Value) -> Value {
    let condition = |type_: &str| {
        json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": "2026-01-01T11:00:00Z"})
    };
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let conditions = ["Launched", "Registered", "Initialized"].map(condition);
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("claim-{name}"), "uid": format!("claim-{name}"), "labels": {label::NODEPOOL: "pool-0"}},
        "spec": {
            "requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": CLASS},
            "taints": node["spec"]["taints"],
        },
        "status": {
            "nodeName": name, "providerID": node["spec"]["providerID"],
            "capacity": node["status"]["capacity"], "allocatable": node["status"]["allocatable"],
            "conditions": conditions,
        },
    })
}

/// Most DaemonSet pods that belong on the node run there already.
fn add_daemons(dice: &mut Dice, cluster: &mut Cluster, node: &str, tainted: bool) {
    for set in &cluster.daemon_sets {
        let template = &set["spec"]["template"];
        let belongs = template["spec"]["nodeSelector"].is_null() && (!tainted || template["spec"]["tolerations"].is_array());
        if !belongs || dice.chance(25) {
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
                "name": name, "namespace": "default", "uid": format!("uid-{name}"), "labels": template["metadata"]["labels"],
                "ownerReferences": [owner],
            },
            "spec": spec, "status": {"phase": "Running"},
        }));
    }
}
