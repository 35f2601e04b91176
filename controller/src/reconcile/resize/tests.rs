//! Tests of the writes of a resize and their order, and of recommendations without a resize.

use std::sync::Arc;

use api::objects::{NodeReport, Pod};
use api::usage::{Level, PodId, PodUsage, UNKNOWN, encode_pods};
use api::{NodeClaim, annotation, label};
use planner::{ContainerResize, Resize, ResizeReason, Size};
use serde_json::{Value, json};

use super::{advice, steps};
use crate::fixture::{at, body, claim, node, words};
use crate::state::index::Index;
use crate::write::writer::Operation;

const UID: &str = "12345678-9abc-def0-1234-56789abcdef0";
const MIB: i64 = 1 << 20;

fn pod(annotations: &Value) -> Arc<Pod> {
    let requests = json!({"cpu": "1500m", "memory": "2Gi"});
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "owner", "controller": true});
    let value = json!({
        "metadata": {
            "name": "web-1", "namespace": "shop", "uid": UID, "resourceVersion": "7", "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node(&json!({})).name(),
            "containers": [{"name": "main", "resources": {"requests": requests}}, {"name": "side"}],
        },
        "status": {"phase": "Running"},
    });
    Arc::new(serde_json::from_value(value).unwrap())
}

fn resize(why: ResizeReason, from: i64, to: i64) -> Resize {
    let size = |cpu| Size { cpu, memory: 2048 * MIB };
    let requested = size(from.max(to));
    let main = ContainerResize { name: "main".to_owned(), requested, from: size(from), to: size(to) };
    Resize {
        uid: UID.to_owned(),
        pod: "shop/web-1".to_owned(),
        node: "n1".to_owned(),
        containers: vec![main],
        why,
        marks: why == ResizeReason::Pressure,
    }
}

/// Returns a NodeClaim that records whether Kerf lowered requests on its node.
fn recorded(lowered: &str) -> Arc<NodeClaim> {
    claim(&json!({"metadata": {"annotations": {annotation::REQUESTS_LOWERED: lowered}}}))
}

/// Returns the bodies of the writes to the pod, on a node on which Kerf lowered requests before.
fn bodies(pod: &Arc<Pod>, resize: &Resize) -> Vec<(&'static str, Value)> {
    pod_writes(steps(pod, &recorded("true"), resize, at(0)))
}

fn pod_writes(steps: Vec<Operation>) -> Vec<(&'static str, Value)> {
    let written = steps.into_iter().filter_map(|step| {
        let name = step.name();
        match step {
            Operation::PatchPod(target, body) | Operation::ResizePod(target, body) => {
                assert_eq!(
                    (target.namespace.as_str(), target.name.as_str(), target.uid.as_str()),
                    ("shop", "web-1", UID)
                );
                Some((name, body))
            }
            _ => None,
        }
    });
    written.collect()
}

fn resized(cpu: &str) -> (&'static str, Value) {
    let main = json!({"name": "main", "resources": {"requests": {"cpu": cpu}}});
    ("resize_pod", json!({"metadata": {"uid": UID}, "spec": {"containers": [main]}}))
}

#[test]
fn steps_store_the_requests_before_they_lower_them() {
    let patch = |annotations: Value| {
        ("patch_pod", json!({"metadata": {"uid": UID, "resourceVersion": "7", "annotations": annotations}}))
    };
    let text = r#"{"main":{"cpu":"1500m","memory":"2Gi"}}"#;
    let lower = resize(ResizeReason::MakesRoom, 1500, 750);
    let expected = vec![patch(json!({annotation::REQUESTED: text})), resized("750m")];
    assert_eq!(bodies(&pod(&json!({})), &lower), expected);
    // A known value is not written again, so that only the resize is left after a crash between the two writes.
    assert_eq!(bodies(&pod(&json!({annotation::REQUESTED: text})), &lower), vec![resized("750m")]);
    let other = json!({annotation::REQUESTED: r#"{"old":{"cpu":"1"}}"#});
    let both = r#"{"main":{"cpu":"1500m","memory":"2Gi"},"old":{"cpu":"1"}}"#;
    assert_eq!(bodies(&pod(&other), &lower)[0], patch(json!({annotation::REQUESTED: both})));
}

/// The annotation of a pod counts only where the NodeClaim has the record, so the record is written first.
#[test]
fn steps_record_on_the_claim_before_the_first_lowered_request() {
    let lower = resize(ResizeReason::MakesRoom, 1500, 750);
    let foreign = pod(&json!({annotation::REQUESTED: r#"{"old":{"cpu":"90"}}"#}));
    let steps = |claim: &str, resize: &Resize| steps(&foreign, &recorded(claim), resize, at(0));
    let first = steps("", &lower);
    assert_eq!(words(&first)[..2], ["patch claim default-1", "patch pod web-1"]);
    assert_eq!(body(&first)["metadata"]["annotations"], json!({annotation::REQUESTS_LOWERED: "true"}));
    let written = pod_writes(first).remove(0).1["metadata"]["annotations"][annotation::REQUESTED].clone();
    assert_eq!(written, r#"{"main":{"cpu":"1500m","memory":"2Gi"}}"#, "an annotation of another client is not kept");
    assert_eq!(words(&steps("true", &lower))[0], "patch pod web-1", "once");
    let raises = steps("", &resize(ResizeReason::Grown, 1500, 1600));
    assert_eq!(words(&raises)[0], "resize pod web-1", "only before requests are lowered");
}

#[test]
fn steps_store_the_shortage_before_they_raise_requests() {
    let up = resize(ResizeReason::Pressure, 1500, 3000);
    let marks =
        |before: Value| bodies(&pod(&before), &up)[0].1["metadata"]["annotations"][annotation::GIVEN_BACK].clone();
    assert_eq!(marks(json!({})), at(0).to_string());
    let before = at(-99).to_string();
    assert_eq!(marks(json!({annotation::GIVEN_BACK: before})), format!("{before},{}", at(0)));
    assert_eq!(bodies(&pod(&json!({})), &up)[1], resized("3"));
    // A pod whose node has no capacity at all only receives the annotation.
    let full = Resize { containers: Vec::new(), marks: true, ..resize(ResizeReason::NoRoom, 1500, 3000) };
    assert_eq!(bodies(&pod(&json!({})), &full), bodies(&pod(&json!({})), &up)[..1]);
    let grown = resize(ResizeReason::Grown, 1500, 1600);
    assert_eq!(bodies(&pod(&json!({})), &grown), vec![resized("1600m")]);
}

#[test]
fn steps_return_nothing_when_the_pod_changed() {
    let lower = resize(ResizeReason::MakesRoom, 1500, 750);
    let other = Resize { uid: "another".to_owned(), ..lower.clone() };
    let changed = resize(ResizeReason::MakesRoom, 1400, 750);
    let mut ending = pod(&json!({})).as_ref().clone();
    ending.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    let rows = [(pod(&json!({})), other), (pod(&json!({})), changed), (Arc::new(ending), lower)];
    for (pod, resize) in rows {
        assert_eq!(steps(&pod, &recorded("true"), &resize, at(0)).len(), 0, "{resize:?}");
    }
}

/// Returns a report of the node in [`crate::fixture`] about a pod that uses about 300m and 500Mi.
fn report(hours: u8) -> NodeReport {
    let seen = PodUsage {
        id: PodId::from_uid(UID).unwrap(),
        cpu_p50: Level::containing(100_000_000),
        cpu_p95: Level::containing(300_000_000),
        cpu_peak: Level::containing(900_000_000),
        memory_p95: Level::containing(500 << 20),
        memory_peak: Level::containing(600 << 20),
        throttled: 0,
        pressure: UNKNOWN,
        oom_kills: 0,
        hours,
    };
    let figures = json!({"p50": "1", "p95": "1", "p99": "1", "peak5m": "1", "peak1h": "1", "peak24h": "1"});
    let report = json!({
        "metadata": {"name": node(&json!({})).name(), "uid": "usage-uid", "resourceVersion": "1"},
        "spec": {
            "instance": "i-1", "measuredAt": at(0).to_string(), "since": at(-99_999).to_string(),
            "cpu": figures, "memory": figures, "throttled": 0, "oomKills": 0,
            "histograms": {"cpu": "", "memory": "", "joint": ""}, "pods": encode_pods(&[seen]),
        },
    });
    serde_json::from_value(report).unwrap()
}

fn index(utilization: &str, hours: u8) -> Index {
    let mut index = Index::default();
    let of_a_pool = node(&json!({"metadata": {"labels": {label::NODEPOOL: "default"}}}));
    drop(index.apply(of_a_pool.as_ref().clone(), at(0), true));
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let pool: api::NodePool = serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": "default", "resourceVersion": "1", "annotations": {annotation::UTILIZATION: utilization}},
        "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}},
    }))
    .unwrap();
    drop(index.apply(pool, at(0), true));
    drop(index.apply(pod(&json!({})).as_ref().clone(), at(0), true));
    drop(index.apply(report(hours), at(0), true));
    index
}

#[test]
fn advice_recommends_requests_when_utilization_is_observe() {
    let reported = advice(&index("observe", 48), false, at(0));
    let messages: Vec<&str> = reported.notes.iter().map(crate::write::events::Event::message).collect();
    // Half of the request is the lower limit for both.
    let expected =
        "Recommended requests by utilization: cpu 750m instead of 1500m, memory 1Gi instead of 2Gi (pods evaluated: 1)";
    assert_eq!(messages, [expected]);
    assert_eq!(reported.spare["default"], Size { cpu: 750, memory: 1024 * MIB });
    let silent = [index("observe", 23), index("ignore", 48), index("pack", 48)];
    for index in silent {
        assert_eq!(advice(&index, false, at(0)), super::Recommendation::default());
    }
    assert_eq!(advice(&index("pack", 48), true, at(0)), reported, "where pods cannot be resized");
    assert_eq!(advice(&index("observe", 48), false, at(3600)), super::Recommendation::default(), "the report is stale");
}
