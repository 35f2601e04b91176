//! Tests of limits of static NodePools, of pauses of launches, and of replacements that are not initialized.

use planner::{LaunchPause, Millis, ReplacementState, Resources};
use serde_json::{Value, json};
use snapshot::{Delays, FailedReplacements, SnapshotCache};

use super::objects::{Cluster, NOW, claim, machine, merged, pending, pool};

/// Returns the limits' usage of `nodes` and the number of nodes that stay, of a NodePool with one node that is deleted, one
/// that is being replaced, and two others.
fn usage(spec: Value) -> (i64, u32) {
    let mut claims = Vec::new();
    let mut nodes = Vec::new();
    for name in ["n1", "n2", "n3"] {
        let (node, claim) = machine(name, json!({}));
        nodes.push(node);
        claims.push(claim);
    }
    claims[0]["metadata"]["deletionTimestamp"] = json!(NOW);
    claims[1]["metadata"]["annotations"] = json!({"kerf.sh/replaced-by": "new"});
    claims.push(claim("new", json!([])));
    let built = Cluster { nodes, claims, pools: vec![pool("default", spec)], ..Cluster::default() }.build();
    let pool = &built.snapshot.pools[0];
    (pool.usage.get(Resources::NODES), pool.running)
}

#[test]
fn usage_counts_leaving_nodes_only_in_static_pools() {
    assert_eq!(usage(json!({"replicas": 3})), (4, 2));
    assert_eq!(usage(json!({})), (2, 2));
}

/// Returns the permission of NodePool `default` to launch replacements, with further fields of the nodes to replace and of
/// the replacement.
fn permission(old: Value, new: Value, failed: Option<FailedReplacements>) -> ReplacementState {
    let replacement =
        merged(claim("new", json!([])), json!({"metadata": {"annotations": {"kerf.sh/replaces": "claim-n1"}}}));
    let (node, replaced) = machine("n1", json!({}));
    let cluster = Cluster {
        nodes: vec![node],
        claims: vec![merged(replaced, old), merged(replacement, new)],
        pools: vec![pool("default", json!({}))],
        ..Cluster::default()
    };
    let objects = cluster.objects();
    let mut input = cluster.input(&objects);
    input.delays.replacements.extend(failed.map(|failed| ("default".to_owned(), failed)));
    SnapshotCache::default().build(&input).snapshot.pools.remove(0).replacements
}

/// The objects alone tell that a command was rolled back, so that a restart of the controller forgets nothing.
#[test]
fn replacements_wait_for_an_uninitialized_one() {
    let awaited = json!({"metadata": {"annotations": {"kerf.sh/replaced-by": "other,new"}}});
    let deleted = json!({"metadata": {"deletionTimestamp": NOW}});
    let initialized = json!({"status": {"conditions": [
        {"type": "Initialized", "status": "True", "reason": "Initialized", "message": "", "lastTransitionTime": NOW},
    ]}});
    let failed = |seconds: &str| {
        Some(FailedReplacements { failures: 2, until: format!("2026-01-01T12:{seconds}Z").parse().unwrap() })
    };
    let awaiting = || ReplacementState::Awaiting { claim: "new".to_owned() };
    let paused = ReplacementState::Paused { failures: 2, until: Millis(1_767_269_400_000) };
    let rows = [
        ("rolled back", json!({}), json!({}), None, awaiting()),
        ("in progress", awaited.clone(), json!({}), None, ReplacementState::Allowed),
        ("in progress after a failure", awaited, json!({}), failed("00:00"), awaiting()),
        ("the node is deleted anyway", deleted.clone(), json!({}), None, ReplacementState::Allowed),
        ("the replacement is deleted", json!({}), deleted.clone(), None, ReplacementState::Allowed),
        ("initialized", json!({}), initialized, None, ReplacementState::Allowed),
        ("a pause", json!({}), deleted.clone(), failed("10:00"), paused),
        ("after the pause", json!({}), deleted, failed("00:00"), ReplacementState::One),
    ];
    for (what, old, new, failed, expected) in rows {
        assert_eq!(permission(old, new, failed), expected, "{what}");
    }
}

#[test]
fn paused_pods_have_a_shape_of_their_own() {
    let cluster = Cluster {
        pods: ["one", "other", "third"].map(|name| pending(name, "1", json!({}))).into(),
        pools: vec![pool("default", json!({})), pool("fixed", json!({"replicas": 2}))],
        ..Cluster::default()
    };
    let pause = LaunchPause { pool: "default".to_owned(), failures: 3, until: Millis(5) };
    let objects = cluster.objects();
    let mut input = cluster.input(&objects);
    input.delays = Delays {
        pods: ["uid-one", "uid-third"].map(|uid| (uid.to_owned(), vec![pause.clone()])).into(),
        static_pools: [("fixed".to_owned(), NOW.parse().unwrap())].into(),
        ..Delays::default()
    };
    let snapshot = SnapshotCache::default().build(&input).snapshot;
    let shapes: Vec<usize> = snapshot.pods.iter().map(|pod| pod.shape).collect();
    assert_eq!((shapes.as_slice(), snapshot.shapes.len()), ([1, 0, 1].as_slice(), 2));
    assert_eq!(snapshot.shapes[1].pause_in("default"), Some(&pause));
    assert!(snapshot.shapes[0].paused.is_empty() && snapshot.shapes[1].pause_in("fixed").is_none());
    let paused: Vec<bool> = snapshot.pools.iter().map(|pool| pool.paused_until.is_some()).collect();
    assert_eq!(paused, [false, true]);
}
