//! Tests of the nodes of an instance, when other Nodes carry its provider id.

use serde_json::{Value, json};

use super::{Index, Node, NodeClaim, condition};
use crate::fixture::{PROVIDER_ID, at, claim, condition as cond, node};

fn index(claim_change: &Value, names: &[&str]) -> Index {
    let mut index = Index::default();
    let _ = index.apply(NodeClaim::clone(&claim(claim_change)), at(0), true);
    for name in names {
        let found = node(&json!({"metadata": {"name": name, "uid": format!("uid of {name}")}}));
        let _ = index.apply(Node::clone(&found), at(0), true);
    }
    index
}

fn registered_as(name: &str) -> Value {
    let conditions = [cond(condition::REGISTERED, "True", 0)];
    json!({"status": {"providerID": PROVIDER_ID, "nodeName": name, "conditions": conditions}})
}

fn names(index: &Index) -> Vec<&str> {
    index.nodes_of(PROVIDER_ID).into_iter().map(|node| node.name()).collect()
}

/// A hostile kubelet registers `a-node` with the provider id of another instance. Its name is the first in order.
#[test]
fn nodes_of_has_only_the_node_that_registered() {
    let index = index(&registered_as("node-1"), &["a-node", "node-1"]);
    assert_eq!(names(&index), ["node-1"]);
    assert_eq!(index.all_nodes_of(PROVIDER_ID).len(), 2);
    let claim_of = |name: &str| index.claim_of(index.nodes.get(name).unwrap()).map(|claim| claim.metadata.name.clone());
    assert!(claim_of("node-1").is_some());
    assert_eq!(claim_of("a-node"), None, "its deletion is not that of the NodeClaim");
}

#[test]
fn nodes_of_is_empty_when_only_another_node_is_left() {
    assert!(names(&index(&registered_as("node-1"), &["a-node"])).is_empty());
}

#[test]
fn nodes_of_prefers_the_name_of_the_instance_before_registration() {
    let launched = json!({"status": {"providerID": PROVIDER_ID}});
    let id = PROVIDER_ID.rsplit('/').next().unwrap();
    assert_eq!(names(&index(&launched, &["a-node", id])), [id]);
    assert_eq!(names(&index(&launched, &["a-node", "node-1"])), ["a-node", "node-1"], "MultipleNodesFound");
}
