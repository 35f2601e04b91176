//! Other objects that change a plan: NodeOverlays and CapacityBuffers.

use api::label;
use serde_json::{Value, json};

use super::Dice;
use super::kinds::Kind;
use super::pods::Workload;
use super::{Cluster, ZONES};

/// Resource that nodes have only by a NodeOverlay.
pub(super) const OVERLAID: &str = "example.com/fuse";

/// Adds NodeOverlays and CapacityBuffers, if their kinds are permitted.
pub(super) fn add(dice: &mut Dice, cluster: &mut Cluster) {
    if cluster.kinds.has(Kind::Overlays) {
        cluster.overlays = (0..dice.between(1, 2)).map(|number| overlay(dice, number)).collect();
    }
    if cluster.kinds.has(Kind::Buffers) {
        (0..dice.between(1, 2)).for_each(|number| add_buffer(dice, cluster, number));
    }
}

fn overlay(dice: &mut Dice, number: u32) -> Value {
    let requirement = match dice.between(0, 3) {
        0 => json!({"key": label::ZONE, "operator": "In", "values": [dice.one(&ZONES)]}),
        1 => json!({"key": label::INSTANCE_CATEGORY, "operator": "In", "values": [dice.one(&["m", "c"])]}),
        2 => json!({"key": label::CAPACITY_TYPE, "operator": "In", "values": [label::CAPACITY_SPOT]}),
        _ => json!({"key": label::INSTANCE_CPU, "operator": "Gt", "values": ["2"]}),
    };
    // Two contradicting NodeOverlays of the same weight would be rejected.
    let mut spec = json!({"requirements": [requirement], "weight": number + 1});
    match dice.between(0, 2) {
        0 => spec["price"] = json!("0.015"),
        1 => spec["priceAdjustment"] = json!(dice.one(&["-30%", "+0.05"])),
        _ => spec["capacity"] = json!({OVERLAID: "2"}),
    }
    let name = format!("overlay-{number}");
    json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": name, "uid": name}, "spec": spec,
    })
}

fn add_buffer(dice: &mut Dice, cluster: &mut Cluster, number: u32) {
    let name = format!("buffer-{number}");
    let mut template = Workload::new(dice, cluster.kinds, &name).template();
    if let Some(spec) = template["spec"].as_object_mut() {
        // The API server sets these fields and refuses a pod that has others.
        spec.remove("priority");
        spec.remove("overhead");
    }
    let metadata = json!({"name": name, "namespace": "default", "uid": name});
    cluster.pod_templates.push(json!({
        "apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": template,
    }));
    cluster.buffers.push(json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": metadata,
        "spec": {"podTemplateRef": {"name": name}, "replicas": dice.between(1, 3)},
    }));
}
