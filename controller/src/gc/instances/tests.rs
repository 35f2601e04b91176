//! Tests of the garbage collection of instances and NodeClaims.

use std::collections::{BTreeMap, BTreeSet};

use api::condition;
use cloud::Instance;
use cloud::tags::LAUNCH_TOKEN_TAG;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::fixture::{at, claim, condition as cond, merge, node, pool, status, words};
use crate::state::index::Index;
use crate::write::writer::Operation;

use super::{are_too_many, events_of, operations, orphans_of};

/// Returns the operations when a live list has the NodeClaims of the index.
fn decide(index: &Index, instances: &[Instance], shifted: &BTreeSet<String>, now: Timestamp) -> Vec<Operation> {
    operations(index, &orphans_of(index, instances, shifted, now), instances, shifted, now)
}

fn index(claims: &[Value], nodes: &[Value]) -> Index {
    let mut index = Index::default();
    for change in claims {
        drop(index.apply(claim(change).as_ref().clone(), at(0), false));
    }
    for change in nodes {
        drop(index.apply(node(change).as_ref().clone(), at(0), false));
    }
    index
}

fn instance(state: &str, launched: i64, token: &str) -> Instance {
    Instance {
        id: "i-1".to_owned(),
        zone: "us-west-2a".to_owned(),
        state: state.to_owned(),
        launched: at(launched).to_string(),
        tags: BTreeMap::from([(LAUNCH_TOKEN_TAG.to_owned(), token.to_owned())]),
        ..Instance::default()
    }
}

fn registered(since: i64) -> Value {
    status(&[cond(condition::REGISTERED, "True", since)])
}

#[test]
fn decide_terminates_instances_without_a_nodeclaim() {
    let unwritten = json!({});
    let elsewhere = json!({"status": {"providerID": "aws:///us-west-2a/i-2"}});
    let silent = Instance { launched: String::new(), ..instance("running", 0, "old") };
    let rows = [
        ("orphaned", instance("running", 70, "old"), vec![], true),
        ("orphaned, pending", instance("pending", 70, "old"), vec![], true),
        ("young", instance("running", 71, "old"), vec![], false),
        ("ending already", instance("shutting-down", 0, "old"), vec![], false),
        ("terminated", instance("terminated", 0, "old"), vec![], false),
        ("of unknown age", silent, vec![], false),
        ("claimed", instance("running", 0, "old"), vec![registered(0)], false),
        ("awaited by its token", instance("running", 0, "kerf-1-2"), vec![unwritten.clone()], false),
        ("of an unwritten launch", instance("running", 0, "kerf-3-4"), vec![unwritten], true),
        ("its launch's claim has another", instance("running", 0, "kerf-1-2"), vec![elsewhere], true),
    ];
    for (what, instance, claims, ends) in rows {
        let steps = decide(&index(&claims, &[]), &[instance], &BTreeSet::new(), at(100));
        assert_eq!(words(&steps).contains(&"terminate i-1".to_owned()), ends, "{what}");
    }
}

/// Rows: orphaned instances, running instances, and whether all of them are kept.
#[test]
fn are_too_many_permits_three_instances_or_a_fifth() {
    let rows = [
        (0, 0, false),
        (3, 3, false),
        (4, 4, true),
        (4, 19, true),
        (4, 20, false),
        (1_000, 5_000, false),
        (1_001, 5_000, true),
    ];
    for (orphaned, alive, kept) in rows {
        assert_eq!(are_too_many(orphaned, alive), kept, "{orphaned} of {alive}");
    }
}

#[test]
fn events_of_name_instances_and_cure_on_their_nodepools() {
    let tagged = |id: &str, pool: &str| Instance {
        id: id.to_owned(),
        tags: BTreeMap::from([(api::label::NODEPOOL.to_owned(), pool.to_owned())]),
        ..Instance::default()
    };
    let kept = [tagged("i-1", "default"), tagged("i-2", "default"), tagged("i-3", "deleted"), tagged("i-4", "default")];
    let mut index = index(&[], &[]);
    drop(index.apply(pool(&json!({})).as_ref().clone(), at(0), false));
    let events = events_of(&index, &kept.iter().collect::<Vec<_>>(), 9);
    let [event] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(
        event.message(),
        "4 of 9 instances of this cluster have no NodeClaim, too many for garbage collection, such as i-1, i-2, i-3: restore the \
         NodeClaims, or terminate the instances"
    );
}

#[test]
fn decide_deletes_the_node_of_an_orphaned_instance() {
    let steps = decide(&index(&[], &[json!({})]), &[instance("running", 0, "old")], &BTreeSet::new(), at(100));
    assert_eq!(words(&steps), ["terminate i-1", "delete node node-1 (node-uid)"]);
}

#[test]
fn decide_deletes_nodeclaims_without_an_instance() {
    let silent = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    let mut leaving = registered(0);
    merge(&mut leaving, &json!({"metadata": {"deletionTimestamp": at(90).to_string()}}));
    let unregistered = status(&[cond(condition::REGISTERED, "Unknown", 0)]);
    let rows = [
        ("no node, no instance", registered(0), vec![], vec![], true),
        ("a silent node", registered(0), vec![silent], vec![], true),
        ("a node that is ready", registered(0), vec![json!({})], vec![], false),
        ("a machine that is ending", registered(0), vec![], vec![instance("shutting-down", 0, "old")], true),
        ("a machine that runs", registered(0), vec![], vec![instance("running", 0, "old")], false),
        ("registered 29 s ago", registered(71), vec![], vec![], false),
        ("not registered", unregistered, vec![], vec![], false),
        ("not launched", json!({}), vec![], vec![], false),
        ("on its way out", leaving, vec![], vec![], false),
    ];
    for (what, claim, nodes, instances, goes) in rows {
        let steps = decide(&index(&[claim], &nodes), &instances, &BTreeSet::new(), at(100));
        assert_eq!(words(&steps).contains(&"delete claim default-1 (claim-uid)".to_owned()), goes, "{what}");
    }
}

/// EC2 may not list the instances of an impaired zone, and a termination would only be repeated.
#[test]
fn decide_skips_zones_of_zonal_shifts() {
    let orphan = instance("running", 0, "old");
    let rows = [("us-west-2a", 0), ("us-west-2b", 1)];
    for (zone, expected) in rows {
        let shifted = BTreeSet::from([zone.to_owned()]);
        assert_eq!(
            decide(&index(&[], &[]), std::slice::from_ref(&orphan), &shifted, at(100)).len(),
            expected,
            "orphan, {zone}"
        );
        let missing = decide(&index(&[registered(0)], &[]), &[], &shifted, at(100));
        assert_eq!(missing.len(), expected, "missing, {zone}");
    }
}
