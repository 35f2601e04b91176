//! Tests of the readings of nodes.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::json;

use super::{MemoryReading, unread};
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
        "metadata": {"labels": {"karpenter.sh/registered": "true", "node.kubernetes.io/instance-type": "m5.large"}},
        "status": {"capacity": {"memory": "7772Mi"}},
    })
}

fn launched() -> serde_json::Value {
    json!({"status": {"providerID": PROVIDER_ID, "imageID": "ami-1"}})
}

#[test]
fn unread_returns_a_registered_node_once() {
    let index = index(registered(), launched());
    let mut read = BTreeSet::from(["aws:///us-west-2a/i-gone".to_owned()]);
    let found = unread(&index, &mut read);
    assert!(read.is_empty(), "nodes that are gone are forgotten");
    let expected = MemoryReading {
        class: "default".to_owned(),
        instance_type: "m5.large".to_owned(),
        image: "ami-1".to_owned(),
        memory: 7772 << 20,
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
        ("no type", json!({"metadata": {"labels": {"node.kubernetes.io/instance-type": null}}}), json!({})),
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
