//! Volumes: bound to a zone, waiting for their first pod, or created with the pod.

use api::label;
use serde_json::{Value, json};

use super::Dice;
use super::{Cluster, DRIVER, ZONES};

/// Source of a pod's volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Claim that is bound to a volume in one or more zones.
    Bound,
    /// Claim that waits for its first pod.
    Waiting,
    /// Unbound claim that all pods of the workload share.
    Shared,
    /// Claim that is created with the pod.
    Ephemeral,
}

/// Names of the StorageClasses: one without a topology, and two that name zones by either of the two zone labels.
const CLASSES: [&str; 3] = ["anywhere", "two-zones", "one-zone"];

pub(super) fn classes() -> Vec<Value> {
    let within = |key: &str, zones: &[&str]| json!([{"matchLabelExpressions": [{"key": key, "values": zones}]}]);
    let class = |name: &str, topologies: Value| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": topologies,
        })
    };
    vec![
        class(CLASSES[0], Value::Null),
        class(CLASSES[1], within(label::ZONE, &ZONES[..2])),
        class(CLASSES[2], within(label::EBS_CSI_ZONE, &ZONES[1..2])),
    ]
}

/// Adds a volume to the pod and its objects to the cluster. `zone` is the required zone of a bound volume, if there is one.
pub(super) fn attach(dice: &mut Dice, cluster: &mut Cluster, pod: &mut Value, source: Source, zone: Option<&str>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
    let workload = text(&pod["metadata"]["labels"]["workload"]);
    let claim = match source {
        Source::Shared => format!("{workload}-shared"),
        _ => format!("{name}-data"),
    };
    let known = cluster
        .volume_claims
        .iter()
        .any(|it| it["metadata"]["name"] == json!(claim) && it["metadata"]["namespace"] == json!(namespace));
    if !known {
        let mut object = volume_claim(dice, &namespace, &claim);
        if source == Source::Ephemeral {
            object["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"], "controller": true,
            }]);
        }
        if source == Source::Bound {
            let volume = format!("pv-{namespace}-{claim}");
            object["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
            object["spec"]["volumeName"] = json!(volume);
            object["status"] = json!({"phase": "Bound"});
            cluster.volumes.push(bound_volume(dice, &volume, &object, zone));
        }
        cluster.volume_claims.push(object);
    }
    pod["spec"]["volumes"] = match source {
        Source::Ephemeral => {
            let template = json!({"spec": volume_claim(dice, &namespace, &claim)["spec"]});
            json!([{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}])
        }
        _ => json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]),
    };
}

fn volume_claim(dice: &mut Dice, namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{namespace}-{name}")},
        "spec": {
            "storageClassName": dice.one(&CLASSES),
            "accessModes": [dice.one(&["ReadWriteOnce", "ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"])],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    })
}

fn bound_volume(dice: &mut Dice, name: &str, claim: &Value, zone: Option<&str>) -> Value {
    let key = *dice.one(&[label::ZONE, label::EBS_CSI_ZONE]);
    let zones: Vec<&str> = match zone {
        Some(zone) => vec![zone],
        None => dice.some(&ZONES),
    };
    // A volume of several zones also has one term per zone.
    let term = |zone: &&str| json!({"matchExpressions": [{"key": key, "operator": "In", "values": [zone]}]});
    let terms: Vec<Value> = zones.iter().map(term).collect();
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": claim["spec"]["accessModes"],
            "storageClassName": claim["spec"]["storageClassName"],
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "claimRef": {"namespace": claim["metadata"]["namespace"], "name": claim["metadata"]["name"], "uid": claim["metadata"]["uid"]},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
        "status": {"phase": "Bound"},
    })
}

/// Returns the CSINode with the number of volumes that a node can attach.
#[must_use]
pub fn csi_node(node: &str, limit: i64) -> Value {
    let driver = json!({"name": DRIVER, "nodeID": node, "allocatable": {"count": limit}});
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": node}, "spec": {"drivers": [driver]}})
}
