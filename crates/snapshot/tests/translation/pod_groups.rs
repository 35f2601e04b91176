//! Pod groups: their size, and the number of their pods that run already.

use planner::PodGroup;
use serde_json::{Value, json};

use crate::objects::{Cluster, machine, merged, pending, pool, running};

/// Adds the annotations of a group.
fn grouped(pod: Value, least: &str) -> Value {
    merged(pod, json!({"metadata": {"annotations": {"kerf.sh/pod-group": "train", "kerf.sh/pod-group-min": least}}}))
}

#[test]
fn group_counts_pods_that_run_or_are_complete() {
    let (node, claim) = machine("n1", json!({}));
    let ended = |name: &str, phase: &str| {
        merged(grouped(running(name, "n1", "1", json!({})), "5"), json!({"status": {"phase": phase}}))
    };
    let terminating = json!({"metadata": {"deletionTimestamp": "2026-11-21T11:59:00Z"}});
    let cluster = Cluster {
        pools: vec![pool("default", json!({}))],
        nodes: vec![node],
        claims: vec![claim],
        pods: vec![
            grouped(running("one", "n1", "1", json!({})), "4"),
            ended("two", "Succeeded"),
            ended("three", "Failed"),
            merged(grouped(running("four", "n1", "1", json!({})), "4"), terminating),
            grouped(pending("five", "1", json!({})), "4"),
            pending("web", "1", json!({})),
        ],
        ..Cluster::default()
    };
    let built = cluster.build();
    let groups: Vec<(&str, Option<&PodGroup>)> =
        built.snapshot.pods.iter().map(|pod| (pod.name.as_str(), pod.group.as_deref())).collect();
    let expected = PodGroup { name: "default/train".to_owned(), least: 5, running: 2 };
    assert_eq!(groups, [("default/five", Some(&expected)), ("default/web", None)]);
    assert!(built.problems.is_empty(), "{:?}", built.problems);
}

#[test]
fn invalid_group_is_reported_once_and_its_pods_are_planned_alone() {
    let pods = vec![grouped(pending("one", "1", json!({})), "all"), grouped(pending("two", "1", json!({})), "all")];
    let built = Cluster { pods, ..Cluster::default() }.build();
    assert!(built.snapshot.pods.iter().all(|pod| pod.group.is_none()));
    let texts: Vec<String> = built.problems.iter().map(ToString::to_string).collect();
    assert!(
        texts[0].contains("annotation kerf.sh/pod-group-min is ignored: \"all\" is not a number of pods"),
        "{texts:?}"
    );
}
