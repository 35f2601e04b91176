//! Tests of the readings of nodes, and of their effect on plans.

use std::collections::BTreeSet;

use api::annotation;
use api::objects::CSINode;
use jiff::Timestamp;
use serde_json::json;

use super::{NodeReading, unread};
use crate::fixture::{self, PROVIDER_ID};
use crate::state::index::Index;

fn index(node: serde_json::Value, claim: serde_json::Value) -> Index {
    let mut index = Index::default();
    let now = Timestamp::UNIX_EPOCH;
    index.apply(fixture::node(&node).as_ref().clone(), now, true);
    index.apply(fixture::claim(&claim).as_ref().clone(), now, true);
    index
}

fn registered() -> serde_json::Value {
    json!({
        // The label of a node is no source of its type, because the node may write it.
        "metadata": {"labels": {"karpenter.sh/registered": "true", "node.kubernetes.io/instance-type": "p5.48xlarge"}},
        "status": {"capacity": {"memory": "7772Mi"}},
    })
}

fn launched() -> serde_json::Value {
    json!({
        "metadata": {"labels": {"node.kubernetes.io/instance-type": "m5.large"}},
        "status": {"providerID": PROVIDER_ID, "imageID": "ami-1"},
    })
}

#[test]
fn unread_returns_a_registered_node_once() {
    let index = index(registered(), launched());
    let mut read = BTreeSet::from(["aws:///us-west-2a/i-gone".to_owned()]);
    let found = unread(&index, &mut read);
    assert!(read.is_empty(), "nodes that are gone are forgotten");
    let expected = NodeReading {
        class: "default".to_owned(),
        instance_type: "m5.large".to_owned(),
        image: "ami-1".to_owned(),
        memory: Some(7772 << 20),
        ..NodeReading::default()
    };
    assert_eq!(found.get(PROVIDER_ID), Some(&expected));
    read.insert(PROVIDER_ID.to_owned());
    assert!(unread(&index, &mut read).is_empty());
}

#[test]
fn unread_skips_nodes_when_a_field_is_missing() {
    let rows = [
        ("not registered", json!({"metadata": {"labels": {"karpenter.sh/registered": null}}}), json!({})),
        ("no memory", json!({"status": {"capacity": null}}), json!({})),
        ("of no size", json!({"status": {"capacity": {"memory": "0"}}}), json!({})),
        ("no type", json!({}), json!({"metadata": {"labels": {"node.kubernetes.io/instance-type": null}}})),
        ("no image", json!({}), json!({"status": {"imageID": ""}})),
        ("no claim", json!({}), json!({"status": {"providerID": "aws:///us-west-2a/i-2"}})),
    ];
    for (name, node, claim) in rows {
        let (mut own, mut of_claim) = (registered(), launched());
        fixture::merge(&mut own, &node);
        fixture::merge(&mut of_claim, &claim);
        assert!(unread(&index(own, of_claim), &mut BTreeSet::new()).is_empty(), "{name}");
    }
}

/// Rows: annotations of the NodeClaim, and the expected hash. The hash counts only if no NodeOverlay changed the resources.
#[test]
fn unread_reads_allocatable_with_the_class_hash() {
    let hash = "karpenter.k8s.aws/ec2nodeclass-hash";
    let overlay = annotation::CAPACITY_OVERLAY_APPLIED;
    let rows = [(json!({hash: "17"}), Some("17")), (json!({hash: "17", overlay: "true"}), None), (json!({}), None)];
    for (annotations, expected) in rows {
        let mut node = registered();
        let amounts = json!({"cpu": "1930m", "ephemeral-storage": "18181869946", "pods": "29", "nvidia.com/gpu": "1"});
        fixture::merge(&mut node, &json!({"status": {"allocatable": amounts}}));
        let mut claim = launched();
        fixture::merge(&mut claim, &json!({"metadata": {"annotations": annotations}}));
        let found = unread(&index(node, claim), &mut BTreeSet::new()).remove(PROVIDER_ID).unwrap();
        let allocatable: Vec<(&str, i64)> = found.allocatable.iter().collect();
        assert_eq!(allocatable, [("cpu", 1930), ("ephemeral-storage", 18_181_869_946), ("pods", 29)]);
        assert_eq!(found.class_hash.as_deref(), expected, "{annotations}");
    }
}

/// Device plugins register later than kubelet, each at its own time.
#[test]
fn unread_reads_devices_when_their_plugin_registers() {
    let mut read = BTreeSet::from([PROVIDER_ID.to_owned()]);
    let with = |amounts: serde_json::Value| {
        let mut node = registered();
        fixture::merge(&mut node, &json!({"status": {"capacity": amounts}}));
        index(node, launched())
    };
    assert!(unread(&with(json!({"nvidia.com/gpu": "0"})), &mut read).is_empty(), "no plugin yet");
    let plugged = with(json!({"nvidia.com/gpu": "3", "example.com/other": "5"}));
    let found = unread(&plugged, &mut read);
    let (id, reading) = found.iter().next().unwrap();
    assert_eq!(reading.allocatable.iter().collect::<Vec<_>>(), [("nvidia.com/gpu", 3)]);
    assert_eq!((found.len(), reading.memory), (1, None));
    read.insert(id.clone());
    assert!(unread(&plugged, &mut read).is_empty());
}

#[test]
fn unread_reads_volumes_when_the_csi_driver_registers() {
    let mut index = index(registered(), launched());
    let mut read = BTreeSet::from([PROVIDER_ID.to_owned()]);
    assert!(unread(&index, &mut read).is_empty(), "no driver yet");
    let name = index.nodes.values().next().unwrap().metadata.name.clone().unwrap();
    let drivers = json!([{"name": "ebs.csi.aws.com", "nodeID": "i-1", "allocatable": {"count": 25}}]);
    let csi = json!({"metadata": {"name": name, "uid": "csi-1"}, "spec": {"drivers": drivers}});
    index.apply(serde_json::from_value::<CSINode>(csi).unwrap(), Timestamp::UNIX_EPOCH, true);
    let found = unread(&index, &mut read);
    let (id, reading) = found.iter().next().unwrap();
    assert_eq!((reading.volumes, reading.memory), (Some(25), None));
    read.insert(id.clone());
    assert!(unread(&index, &mut read).is_empty());
    assert_eq!(read.len(), 2, "both readings stay known while the node is there");
}
