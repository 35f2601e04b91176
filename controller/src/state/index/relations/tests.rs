//! Tests of the nodes of an instance, when other Nodes carry its provider id.

use serde_json::{Value, json};

use api::condition;
use api::objects::Node;
use cloud::Instance;

use super::{Index, NodeClaim, WorkItem};
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

fn own_id() -> &'static str {
    PROVIDER_ID.rsplit('/').next().unwrap()
}

fn listed(id: &str, name: &str) -> Instance {
    Instance {
        id: id.to_owned(),
        private_dns_name: name.to_owned(),
        state: "running".to_owned(),
        ..Instance::default()
    }
}

/// Rows: names of Nodes with the provider id, private DNS name of the instance, and the names that count. Before the list of EC2
/// both Nodes count, and without a false Node nothing changes.
#[test]
fn nodes_of_prefers_the_private_dns_name_before_registration() {
    let launched = json!({"status": {"providerID": PROVIDER_ID}});
    let (address, resource) = ("ip-10-0-0-7.eu-west-1.compute.internal", "i-0abc.eu-west-1.compute.internal");
    let rows = [
        (vec!["a-node", address], address, vec![address]),
        (vec!["a-node", "ip-10-0-0-7"], address, vec!["ip-10-0-0-7"]),
        (vec!["a-node", resource], resource, vec![resource]),
        (vec!["a-node", own_id(), address], address, vec![own_id()]),
        (vec!["a-node", "b-node"], address, vec!["a-node", "b-node"]),
        (vec![address], address, vec![address]),
        (vec!["custom"], address, vec!["custom"]),
        (vec!["custom"], "", vec!["custom"]),
    ];
    for (nodes, dns, expected) in rows {
        let mut index = index(&launched, &nodes);
        let triggers = index.name_instances(&[listed(own_id(), dns)]);
        assert_eq!(names(&index), expected, "{dns}");
        for node in nodes {
            let is_own = index.claim_of(index.nodes.get(node).unwrap()).is_some();
            assert_eq!(is_own, expected.contains(&node), "the deletion of {node} is that of the NodeClaim");
        }
        assert_eq!(triggers.work, [WorkItem::Claim("default-1".to_owned())], "the NodeClaim is reconciled");
    }
}

/// A compromised node of another NodeClaim claims the provider id of a new instance before its own node does.
#[test]
fn nodes_of_ignores_the_node_of_another_instance() {
    let other = json!({"metadata": {"name": "default-2", "uid": "other"}, "status": {"providerID": "aws:///zone/i-2"}});
    let mut deleting = other.clone();
    deleting["metadata"]["deletionTimestamp"] = json!(at(0).to_string());
    deleting["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
    let named = |name: &str, other: Option<&Value>| {
        let mut index = index(&json!({"status": {"providerID": PROVIDER_ID}}), &[name]);
        if let Some(other) = other {
            drop(index.apply(NodeClaim::clone(&claim(other)), at(0), true));
        }
        drop(index.name_instances(&[listed("i-2", "victim.internal"), listed(own_id(), "own.internal")]));
        let claimed = index.claim_of(index.nodes.get(name).unwrap()).is_some();
        assert_eq!(claimed, !names(&index).is_empty(), "{name}");
        claimed
    };
    assert!(!named("victim.internal", Some(&other)));
    assert!(!named("i-2", Some(&other)), "the id of another instance");
    assert!(named("own.internal", Some(&other)));
    assert!(named("custom", Some(&other)));
    assert!(named("victim.internal", Some(&deleting)), "the address has a new instance");
    assert!(named("victim.internal", None));
}

#[test]
fn name_instances_ignores_names_that_decide_nothing() {
    let mut index = index(&json!({"status": {"providerID": PROVIDER_ID}}), &["a-node", "shared.internal"]);
    let ended = Instance { state: "terminated".to_owned(), ..listed(own_id(), "a-node") };
    for instances in [vec![listed("i-2", "shared.internal"), listed(own_id(), "shared.internal")], vec![ended], vec![]]
    {
        drop(index.name_instances(&instances));
        assert_eq!(names(&index), ["a-node", "shared.internal"], "{instances:?}");
    }
}

#[test]
fn name_instances_enqueues_only_unregistered_nodeclaims() {
    for (change, nodes, expected) in [
        (json!({"status": {"providerID": PROVIDER_ID}}), vec!["a-node"], 1),
        (json!({"status": {"providerID": PROVIDER_ID}}), vec![], 0),
        (registered_as("a-node"), vec!["a-node"], 0),
    ] {
        let mut index = index(&change, &nodes);
        assert_eq!(index.name_instances(&[]).work.len(), expected, "{change} {nodes:?}");
    }
}
