//! Copy of the timeline of a node's start: complete once the pod is ready, and bounded in time.

use super::{
    Duration, NodeClaimDecision, NodeClaimView, Value, at, body, claim_view, decide, json, merged, pod, registered,
    words,
};

/// Returns the view of a NodeClaim whose node was initialized at once, this many seconds later.
fn view(timeline: &Value, pod: Option<&Value>, seconds: i64) -> NodeClaimView {
    let timeline = timeline.as_object().map(|line| Value::Object(line.clone()).to_string());
    let mut claim = registered("True");
    // A null removes the annotation.
    claim["metadata"] = json!({"annotations": {"kerf.sh/timeline": timeline}});
    let agent = json!({"start": at(0).to_string(), "kubelet-up": 0}).to_string();
    let node = json!({"metadata": {"annotations": {"kerf.sh/timeline": agent}}});
    NodeClaimView { awaited_pod: pod.map(self::pod), ..claim_view(&claim, &[node], seconds) }
}

fn begun() -> Value {
    json!({"start": at(-3).to_string(), "pod": "default/web", "pod-created": 0, "planned": 2000})
}

/// Returns a pod on this node since the initialization.
fn pod_on(node: &str, ready: &str) -> Value {
    let condition = |type_: &str, status: &str, since| json!({"type": type_, "status": status, "lastTransitionTime": at(since).to_string()});
    json!({
        "metadata": {"creationTimestamp": at(-3).to_string()},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": [condition("PodScheduled", "True", 1), condition("Ready", ready, 9)]},
    })
}

fn copied(decision: &NodeClaimDecision) -> Value {
    let text = &body(&decision.steps)["metadata"]["annotations"]["kerf.sh/timeline"];
    serde_json::from_str(text.as_str().unwrap()).unwrap()
}

#[test]
fn decide_copies_the_timeline_once_the_pod_is_ready() {
    let waits = decide(&view(&begun(), Some(&pod_on("node-1", "False")), 100));
    assert_eq!((words(&waits.steps), waits.after), (vec![], Some(Duration::from_secs(800))));
    let copies = decide(&view(&begun(), Some(&pod_on("node-1", "True")), 100));
    assert_eq!(words(&copies.steps), ["patch claim default-1"]);
    let expected = json!({
        "start": "2026-03-01T11:59:57.000Z", "pod": "default/web", "pod-created": 0, "planned": 2000, "nodeclaim-created": 3000,
        "launched": 3000, "agent-started": 3000, "kubelet-up": 3000, "registered": 3000, "initialized": 3000,
        "pod-scheduled": 4000, "pod-ready": 12000,
    });
    assert_eq!(copied(&copies), expected);
    assert_eq!(copies.started.len(), 10);
}

#[test]
fn decide_copies_the_timeline_without_a_pod_that_does_not_come() {
    let elsewhere = pod_on("node-2", "False");
    let ended = merged(&[pod_on("node-1", "False"), json!({"status": {"phase": "Failed"}})]);
    let terminating =
        merged(&[pod_on("node-1", "False"), json!({"metadata": {"deletionTimestamp": at(50).to_string()}})]);
    let rows = [
        (begun(), None, 100),
        (begun(), Some(&elsewhere), 100),
        (begun(), Some(&ended), 100),
        (begun(), Some(&terminating), 100),
        (begun(), Some(&pod_on("node-1", "False")), 900),
        (Value::Null, None, 100),
    ]
    .map(|(timeline, pod, seconds)| (timeline, pod.cloned(), seconds));
    for (timeline, pod, seconds) in rows {
        let decision = decide(&view(&timeline, pod.as_ref(), seconds));
        let copy = copied(&decision);
        assert!(copy["initialized"].is_u64() && copy["pod-ready"].is_null(), "{timeline} {pod:?}: {copy}");
    }
}

#[test]
fn decide_copies_no_timeline_while_the_status_changes_or_of_an_old_node() {
    let mut busy = view(&begun(), Some(&pod_on("node-1", "True")), 100);
    busy.last_pod_event = Some(at(60));
    let decision = decide(&busy);
    assert_eq!((words(&decision.steps), decision.started.len()), (vec!["status of claim default-1".to_owned()], 0));
    let old = decide(&view(&Value::Null, None, 900));
    assert_eq!((words(&old.steps), old.after), (vec![], None));
}
