//! Tests of pods with a surge copy: the pods that qualify, and the effect on budgets and placement.

use planner::BoundPod;
use serde_json::{Value, json};
use snapshot::SnapshotResult;

use crate::objects::{Cluster, guard, machine, merged, owned_by, pool, running};

/// Returns a ready pod of the Deployment `web`.
fn of_web(name: &str, node: &str, annotations: Value) -> Value {
    let labels = json!({"labels": {"app": "web", "pod-template-hash": "7d9"}, "annotations": annotations});
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    merged(running(name, node, "1", merged(owned_by("ReplicaSet"), labels)), ready)
}

/// Returns two nodes of a NodePool with this value of `kerf.sh/surge`.
fn built(pool_asks: bool, pods: Vec<Value>, budgets: Vec<Value>) -> SnapshotResult {
    let (nodes, claims) = ["n1", "n2"].map(|name| machine(name, json!({}))).into_iter().unzip();
    let annotations = json!({"metadata": {"annotations": {"kerf.sh/surge": pool_asks.to_string()}}});
    let pools = vec![merged(pool("default", json!({})), annotations)];
    Cluster { nodes, claims, pods, pools, budgets, ..Cluster::default() }.build()
}

fn first(built: &SnapshotResult) -> &BoundPod {
    &built.snapshot.nodes[0].pods[0]
}

#[test]
fn surges_is_true_for_the_only_pod_of_a_deployment() {
    let web = |name: &str, node: &str| of_web(name, node, json!({}));
    let ended = merged(web("b", "n2"), json!({"status": {"phase": "Succeeded"}}));
    let rows = [
        ("alone", true, vec![web("a", "n1")], true),
        ("not asked", false, vec![web("a", "n1")], false),
        ("one of two", true, vec![web("a", "n1"), web("b", "n2")], false),
        ("the other has ended", true, vec![web("a", "n1"), ended], true),
        ("of no Deployment", true, vec![running("a", "n1", "1", json!({}))], false),
    ];
    for (what, asks, pods, expected) in rows {
        assert_eq!(first(&built(asks, pods, vec![])).surges, expected, "{what}");
    }
}

/// Rows: the annotations of NodePool and pod, and whether the pod gets a surge copy, so that its budget does not block it.
#[test]
fn surge_annotation_of_the_pod_takes_precedence() {
    let one = guard(
        "a",
        json!({"matchLabels": {"app": "web"}}),
        json!({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}),
    );
    for (pool_asks, annotation, surges) in [(true, "false", false), (false, "true", true), (true, "true", true)] {
        let pods = vec![of_web("a", "n1", json!({"kerf.sh/surge": annotation}))];
        let built = built(pool_asks, pods, vec![one.clone()]);
        let found = first(&built);
        assert_eq!((found.surges, found.held_by.is_empty()), (surges, surges), "{pool_asks} {annotation}");
    }
}

/// Without annotations, a pod gets a copy where its budget would otherwise keep its node for ever.
#[test]
fn surges_is_true_by_default_when_a_budget_blocks_the_only_pod() {
    let web = json!({"matchLabels": {"app": "web"}});
    let blocking = |spec: Value| {
        let status = json!({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1});
        merged(guard("a", web.clone(), status), json!({"spec": spec}))
    };
    let off = json!({"kerf.sh/surge": "false"});
    let rows = [
        ("one must stay", json!({}), json!({"minAvailable": 1}), true, true),
        ("none may ever go", json!({}), json!({"maxUnavailable": 0}), true, false),
        ("the NodePool has none", json!({}), json!({"minAvailable": 1}), false, false),
        ("the pod has none", off, json!({"minAvailable": 1}), true, false),
    ];
    for (what, annotations, spec, default, expected) in rows {
        let (nodes, claims) = ["n1", "n2"].map(|name| machine(name, json!({}))).into_iter().unzip();
        let own = if default { json!({}) } else { json!({"metadata": {"annotations": {"kerf.sh/surge": "false"}}}) };
        let pools = vec![merged(pool("default", json!({})), own)];
        let (pods, budgets) = (vec![of_web("a", "n1", annotations)], vec![blocking(spec)]);
        let built = Cluster { nodes, claims, pods, pools, budgets, ..Cluster::default() }.build();
        let found = first(&built);
        assert_eq!((found.surges, found.held_by.is_empty()), (expected, expected), "{what}");
        let reports = built.problems.iter().any(|problem| problem.to_string().contains("can never be evicted"));
        assert!(!(expected && reports), "{what}: {:?}", built.problems);
    }
}

#[test]
fn surges_is_false_when_no_copy_can_start() {
    let (node, claim) = machine("n1", json!({}));
    let asks = json!({"metadata": {"annotations": {"kerf.sh/surge": "true"}}});
    let pods = vec![of_web("a", "n1", json!({"kerf.sh/surge": "true"}))];
    let budgets = vec![guard(
        "a",
        json!({"matchLabels": {"app": "web"}}),
        json!({"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}),
    )];
    let pools = vec![merged(pool("default", json!({})), asks)];
    let mut cluster = Cluster { nodes: vec![node], claims: vec![claim], pods, pools, budgets, ..Cluster::default() };
    for surge in [true, false] {
        cluster.settings.surge = surge;
        let built = cluster.build();
        let found = first(&built);
        assert_eq!((found.surges, found.held_by.is_empty()), (surge, surge));
        let problems: Vec<String> = built.problems.iter().map(ToString::to_string).collect();
        let reports = |text: &String| text.starts_with("Pod default/a: annotation kerf.sh/surge has no effect");
        assert_eq!(problems.iter().any(reports), !surge, "{problems:?}");
    }
}

#[test]
fn held_by_lists_budgets_that_a_copy_does_not_satisfy() {
    let asks = || vec![of_web("a", "n1", json!({"kerf.sh/surge": "true"}))];
    let web = || json!({"matchLabels": {"app": "web"}});
    let status = |healthy: i32| json!({"disruptionsAllowed": 0, "currentHealthy": healthy, "desiredHealthy": 1});
    let never = json!({"spec": {"maxUnavailable": 0}});
    let rows = [
        ("one must stay, and one is there", vec![guard("a", web(), status(1))], vec![]),
        ("one must stay, and none is healthy", vec![guard("a", web(), status(0))], vec!["default/a"]),
        ("no pod may ever go", vec![merged(guard("a", web(), status(1)), never)], vec!["default/a"]),
        ("two", vec![guard("a", web(), status(1)), guard("b", web(), status(1))], vec!["default/a", "default/b"]),
    ];
    for (what, budgets, expected) in rows {
        assert_eq!(first(&built(false, asks(), budgets)).held_by, expected, "{what}");
    }
}

#[test]
fn reschedulable_is_false_when_a_copy_is_requested() {
    let waits = json!({"kerf.sh/surge": "true", "kerf.sh/surged": "owner web-7d9 2026-01-01T11:59:00Z"});
    assert!(!first(&built(false, vec![of_web("a", "n1", waits)], vec![])).reschedulable);
    assert!(first(&built(false, vec![of_web("a", "n1", json!({"kerf.sh/surge": "true"}))], vec![])).reschedulable);
}

#[test]
fn problems_name_an_invalid_surge_annotation() {
    let built = built(false, vec![of_web("a", "n1", json!({"kerf.sh/surge": "yes"}))], vec![]);
    let problems: Vec<String> = built.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, ["Pod default/a: annotation kerf.sh/surge is ignored: \"yes\" is neither true nor false"]);
}
