//! Tests of the state of launches, and of the pauses that keep pods waiting.

use std::sync::Arc;

use api::{condition, label};
use planner::{LaunchPause, Millis, PlacementReason, Plan, PodShape, PodVerdict, Pool, Report, Snapshot, Stage};
use serde_json::{Value, json};
use snapshot::SnapshotResult;

use super::{PlannedNodes, blocked, delays, planned_nodes};
use crate::fixture::{at, claim, condition as cond, node, pod, pool, status};
use crate::state::attempts::PoolVersion;
use crate::state::attempts::launches::{BlockedLaunches, PodGroup};
use crate::state::attempts::stored::Attempts;
use crate::state::index::Index;

/// Returns a cluster in which the node of `default-1` is registered, with a pod that kube-scheduler refused.
fn cluster(further: &[Value]) -> Index {
    let mut index = Index::default();
    let up = status(&[cond(condition::LAUNCHED, "True", 0), cond(condition::REGISTERED, "True", 20)]);
    let refused = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
    let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "set", "controller": true});
    let waiting = json!({
        "metadata": {"ownerReferences": [owner]},
        "spec": {"nodeName": null}, "status": {"phase": "Pending", "conditions": [refused]},
    });
    let now = at(20);
    drop(index.apply(pool(&json!({})).as_ref().clone(), now, true));
    drop(index.apply(claim(&up).as_ref().clone(), now, true));
    drop(index.apply(node(&json!({"metadata": {"labels": {label::INITIALIZED: "true"}}})).as_ref().clone(), now, true));
    drop(index.apply(pod(&waiting).as_ref().clone(), now, true));
    for other in further {
        drop(index.apply(pod(other).as_ref().clone(), now, true));
    }
    index
}

/// Returns the number of failures in the pause of the pending pod, 30 s after its node came up.
fn paused(index: &Index, group: PodGroup, planned: &PlannedNodes) -> Option<u32> {
    let attempts = Attempts::new("test".to_owned());
    let pods = if matches!(group, PodGroup::Buffer(_)) { "" } else { "pod-uid" };
    let groups = [(group.clone(), [pods.to_owned()].into())].into();
    attempts.launches.lock().begin("default-1", "default", groups, PoolVersion::from_index(index, "default"), at(0));
    drop(delays(index, &attempts, planned, at(20)));
    let found = delays(index, &attempts, planned, at(26));
    let of_pod = found.pods.get("pod-uid").or_else(|| found.holders.values().next());
    of_pod.and_then(|pauses| pauses.first()).map(|pause| pause.failures)
}

#[test]
fn delays_pause_pods_whose_node_came_up_and_stays_empty() {
    let web = || PodGroup::Controller("set".to_owned());
    let other = json!({"metadata": {"name": "other", "uid": "other-uid"}});
    let daemon = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cni", "uid": "cni", "controller": true});
    let daemon = json!({"metadata": {"name": "cni", "uid": "cni-uid", "ownerReferences": [daemon]}});
    let rows = [
        ("an empty node", vec![], Some(1)),
        ("a DaemonSet pod", vec![daemon], Some(1)),
        ("another pod proves that the node works", vec![other], None),
    ];
    for (what, pods, expected) in rows {
        assert_eq!(paused(&cluster(&pods), web(), &PlannedNodes::default()), expected, "{what}");
    }
}

#[test]
fn delays_pause_nothing_while_the_plan_expects_the_pod_there() {
    for name in ["node-1", "default-1"] {
        let planned = PlannedNodes { pods: [name.to_owned()].into(), ..PlannedNodes::default() };
        assert_eq!(paused(&cluster(&[]), PodGroup::Controller("set".to_owned()), &planned), None, "{name}");
    }
}

#[test]
fn planned_nodes_omits_starting_nodes_for_virtual_pods() {
    let on =
        |node: &str| PodVerdict::Existing { node: node.to_owned(), why: PlacementReason::Room, dropped: Vec::new() };
    let of_node =
        |name: &str, stage| Arc::new(planner::Node { name: name.to_owned(), stage, ..planner::Node::default() });
    let pod = |buffer: bool| planner::Pod {
        holder: buffer.then(|| planner::CapacityHolder::Buffer("spare".to_owned())),
        ..planner::Pod::default()
    };
    let snapshot = Snapshot {
        nodes: vec![of_node("up", Stage::Registered), of_node("starting", Stage::InFlight)],
        pods: [true, true, false].map(pod).into(),
        ..Snapshot::default()
    };
    let verdicts = vec![on("up"), on("starting"), on("starting")];
    let plan = Plan { report: Report { pods: verdicts, ..Report::default() }, ..Plan::default() };
    let planned = planned_nodes(&SnapshotResult { snapshot, ..SnapshotResult::default() }, &plan);
    assert_eq!(planned.virtual_pods, ["up".to_owned()].into());
    assert_eq!(planned.pods, ["starting".to_owned()].into());
}

#[test]
fn delays_pause_buffers_unless_the_node_keeps_their_capacity() {
    let mut index = cluster(&[]);
    let buffer = || PodGroup::Buffer("default/spare".to_owned());
    assert_eq!(paused(&index, buffer(), &PlannedNodes::default()), None, "the buffer is gone");
    drop(index.apply(crate::fixture::buffer(&json!({})).as_ref().clone(), at(20), true));
    assert_eq!(paused(&index, buffer(), &PlannedNodes::default()), Some(1));
    let planned = PlannedNodes { virtual_pods: ["node-1".to_owned()].into(), ..PlannedNodes::default() };
    assert_eq!(paused(&index, buffer(), &planned), None);
}

#[test]
fn blocked_counts_waiting_pods_and_missing_replicas() {
    let pause = |pool: &str, failures, until| LaunchPause { pool: pool.to_owned(), failures, until: Millis(until) };
    let shape = |pauses| PodShape { paused: pauses, ..PodShape::default() };
    let shapes = [
        shape(vec![pause("default", 2, at(60).as_millisecond()), pause("fallback", 1, at(40).as_millisecond())]),
        shape(vec![pause("default", 3, at(80).as_millisecond())]),
        shape(vec![pause("default", 0, at(90).as_millisecond())]),
        shape(vec![pause("default", 9, at(99).as_millisecond())]),
    ];
    let pods = (0..4).map(|shape| planner::Pod { shape, ..planner::Pod::default() }).collect();
    let waits = PodVerdict::Unschedulable { pools: Vec::new().into() };
    let verdicts = vec![waits.clone(), waits.clone(), waits, PodVerdict::Postponed];
    let fixed = |name: &str, running| Pool {
        name: name.to_owned(),
        replicas: Some(2),
        running,
        paused_until: Some(Millis(at(70).as_millisecond())),
        ..Pool::default()
    };
    let snapshot = Snapshot {
        shapes: shapes.map(Arc::new).into(),
        pods,
        pools: vec![fixed("short", 1), fixed("complete", 2)],
        ..Snapshot::default()
    };
    let built = SnapshotResult { snapshot, ..SnapshotResult::default() };
    let plan = Plan { report: Report { pods: verdicts, ..Report::default() }, ..Plan::default() };
    let of = |pods, failures, until| BlockedLaunches { pods, failures, until: at(until), cause: None };
    let found: Vec<_> = blocked(&built, &plan, |_| 4).into_iter().collect();
    let expected = [("default", of(2, 3, 80)), ("fallback", of(1, 1, 40)), ("short", of(0, 4, 70))];
    assert_eq!(found, expected.map(|(pool, blocked)| (pool.to_owned(), blocked)));
}
