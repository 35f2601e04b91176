//! ProvisioningRequests: their virtual pods, the pods that wait for them, and the state of their capacity.

use api::provisioningrequest::RequestPhase;
use planner::{CapacityHolder, PodGroup, plan};
use serde_json::{Value, json};
use snapshot::{IgnoredReason, RequestCapacity, SnapshotResult, request_capacity};

use crate::objects::{Cluster, machine, merged, pending, pool, running};

const ATOMIC: &str = "best-effort-atomic-scale-up.autoscaling.x-k8s.io";
const CHECK: &str = "check-capacity.autoscaling.x-k8s.io";

/// Returns a request for two leaders and three workers.
fn request(class: &str, change: Value) -> Value {
    let whole = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest",
        "metadata": {
            "name": "train", "namespace": "default", "uid": "uid-train", "creationTimestamp": "2026-01-01T11:00:00Z",
        },
        "spec": {
            "provisioningClassName": class,
            "podSets": [
                {"podTemplateRef": {"name": "leader"}, "count": 2}, {"podTemplateRef": {"name": "worker"}, "count": 3},
            ],
        },
    });
    merged(whole, change)
}

fn template(name: &str, cpu: &str) -> Value {
    let containers = json!([{"name": "main", "resources": {"requests": {"cpu": cpu}}}]);
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "template": {"metadata": {"labels": {"app": "train"}}, "spec": {"containers": containers}},
    })
}

fn cluster(request: Value, pods: Vec<Value>) -> Cluster {
    let (node, claim) = machine("n1", json!({}));
    Cluster {
        requests: vec![request],
        pod_templates: vec![template("leader", "250m"), template("worker", "500m")],
        pools: vec![pool("default", json!({}))],
        nodes: vec![node],
        claims: vec![claim],
        pods,
        ..Cluster::default()
    }
}

/// Returns the status of a request with one condition, which is true since this time.
fn since(type_: &str, time: &str) -> Value {
    let condition = json!({
        "type": type_, "status": "True", "reason": "Some", "message": "", "lastTransitionTime": time,
    });
    json!({"status": {"conditions": [condition]}})
}

fn booked() -> Value {
    since("Provisioned", "2026-01-01T11:55:00Z")
}

/// Makes a pod consume the request.
fn consuming(pod: Value) -> Value {
    let annotations = json!({"autoscaling.x-k8s.io/consume-provisioning-request": "train"});
    merged(pod, json!({"metadata": {"annotations": annotations}}))
}

fn names(built: &SnapshotResult) -> Vec<&str> {
    built.snapshot.pods.iter().map(|pod| pod.name.as_str()).collect()
}

#[test]
fn waiting_request_has_a_group_of_virtual_pods() {
    let built = cluster(request(ATOMIC, json!({})), Vec::new()).build();
    let name = |set, number| format!("default/provisioning-request-train-{set}-{number}");
    assert_eq!(names(&built), [name(0, 0), name(0, 1), name(1, 0), name(1, 1), name(1, 2)]);
    let group = PodGroup { name: "ProvisioningRequest default/train".to_owned(), least: 5, running: 0 };
    for pod in &built.snapshot.pods {
        assert_eq!(pod.holder, Some(CapacityHolder::Request("default/train".to_owned())));
        assert_eq!(pod.group.as_deref(), Some(&group));
    }
    assert!(built.snapshot.shapes.iter().all(|shape| shape.paused.is_empty()));
    assert_eq!(built.requests[0].phase, RequestPhase::Waiting);
}

#[test]
fn request_that_checks_the_capacity_launches_in_no_nodepool() {
    let built = cluster(request(CHECK, json!({})), Vec::new()).build();
    assert!(built.snapshot.shapes.iter().all(|shape| shape.pause_in("default").is_some()));
}

#[test]
fn booked_request_has_fewer_virtual_pods_with_each_pod_that_consumes_it() {
    let pods = vec![
        consuming(running("a", "n1", "500m", json!({}))),
        consuming(pending("b", "250m", json!({}))),
        // kube-scheduler has not tried it yet, so its capacity is still kept.
        consuming(merged(pending("c", "500m", json!({})), json!({"status": {"conditions": []}}))),
        running("other", "n1", "500m", json!({})),
    ];
    let built = cluster(request(ATOMIC, booked()), pods).build();
    let name = |set, number| format!("default/provisioning-request-train-{set}-{number}");
    assert_eq!(names(&built), ["default/b".to_owned(), name(0, 0), name(1, 0), name(1, 1)]);
    assert!(built.snapshot.pods.iter().all(|pod| pod.group.is_none()));
}

#[test]
fn request_without_a_future_has_no_virtual_pods() {
    let rows = [
        since("Provisioned", "2026-01-01T11:50:00Z"),
        since("Failed", "2026-01-01T11:59:00Z"),
        since("BookingExpired", "2026-01-01T11:59:00Z"),
        json!({"metadata": {"deletionTimestamp": "2026-01-01T11:59:00Z"}}),
        json!({"spec": {"parameters": {"ValidUntilSeconds": "3600"}}}),
    ];
    for change in rows {
        let built = cluster(request(ATOMIC, change.clone()), Vec::new()).build();
        assert_eq!(names(&built), Vec::<&str>::new(), "{change}");
    }
    let foreign = cluster(request("queued-provisioning.gke.io", json!({})), Vec::new()).build();
    assert!(foreign.requests.is_empty() && foreign.snapshot.pods.is_empty());
}

/// The pods came before the nodes were ready, and kube-scheduler has bound some of them as soon as it could.
#[test]
fn waiting_request_counts_pods_that_have_a_node() {
    let pods = |names: &[&str]| names.iter().map(|name| consuming(running(name, "n1", "1m", json!({})))).collect();
    let small = json!({"spec": {"podSets": [{"podTemplateRef": {"name": "leader"}, "count": 2}]}});
    let capacity = |names: &[&str]| {
        let built = cluster(request(ATOMIC, small.clone()), pods(names)).build();
        let planned = built.snapshot.pods.len();
        (planned, request_capacity(&built, &plan(&built.snapshot)).remove(0))
    };
    assert_eq!(capacity(&["a"]), (1, RequestCapacity::Ready));
    assert_eq!(capacity(&["a", "b"]), (0, RequestCapacity::Ready));
}

#[test]
fn pods_wait_until_the_capacity_of_their_request_exists() {
    let ended = since("BookingExpired", "2026-01-01T11:59:00Z");
    let rows = [
        (json!({}), true),
        (since("Failed", "2026-01-01T11:59:00Z"), true),
        (booked(), false),
        (ended, false),
        (json!({"metadata": {"name": "other"}}), false),
    ];
    for (change, waits) in rows {
        let built = cluster(request(ATOMIC, change.clone()), vec![consuming(pending("a", "1", json!({})))]).build();
        let reason = IgnoredReason::AwaitsRequest { request: "default/train".to_owned() };
        let found = built.ignored.iter().map(|ignored| (&ignored.reason, ignored.deserves_event())).next();
        assert_eq!(found, waits.then_some((&reason, true)), "{change}");
    }
}

#[test]
fn request_names_what_cannot_be_planned() {
    let absent = json!([{"podTemplateRef": {"name": "absent"}, "count": 1}]);
    let rows = [
        (json!({"spec": {"podSets": absent}}), false, "spec.podSets[0]: PodTemplate absent does not exist: create it"),
        (
            json!({"spec": {"parameters": {"ValidUntilSeconds": "soon"}}}),
            true,
            "spec.parameters[ValidUntilSeconds]: \"soon\" is not a number of seconds such as 3600",
        ),
    ];
    for (change, is_final, text) in rows {
        let built = cluster(request(ATOMIC, change), Vec::new()).build();
        let error = built.requests[0].resolved.clone().unwrap_err();
        assert_eq!((error.to_string().as_str(), error.is_final()), (text, is_final));
        assert!(built.snapshot.pods.is_empty());
        let phase = if is_final { RequestPhase::Failed } else { RequestPhase::Waiting };
        assert_eq!(built.requests[0].phase, phase);
    }
}

#[test]
fn capacity_of_a_request_follows_the_plan() {
    let capacity = |cluster: Cluster| {
        let built = cluster.build();
        request_capacity(&built, &plan(&built.snapshot)).remove(0)
    };
    let small = json!({"spec": {"podSets": [{"podTemplateRef": {"name": "leader"}, "count": 1}]}});
    assert_eq!(capacity(cluster(request(CHECK, small), Vec::new())), RequestCapacity::Ready);
    let large = json!({"spec": {"podSets": [{"podTemplateRef": {"name": "leader"}, "count": 400}]}});
    let RequestCapacity::Missing { placed, of, reasons } = capacity(cluster(request(CHECK, large), Vec::new())) else {
        unreachable!("one node is too small")
    };
    assert!(placed > 0 && placed < of && reasons.is_empty(), "{placed} of {of}: {reasons:?}");
    let limited = Cluster {
        pools: vec![pool("default", json!({"limits": {"cpu": "1"}}))],
        ..cluster(
            request(ATOMIC, json!({"spec": {"podSets": [{"podTemplateRef": {"name": "worker"}, "count": 400}]}})),
            Vec::new(),
        )
    };
    let missing = capacity(limited).to_string();
    assert!(missing.contains(" of 400 pods could get a place: NodePool default: "), "{missing}");
    let starting = capacity(cluster(
        request(ATOMIC, json!({"spec": {"podSets": [{"podTemplateRef": {"name": "worker"}, "count": 9}]}})),
        Vec::new(),
    ));
    assert!(matches!(starting, RequestCapacity::Starting { of: 9, .. }), "{starting:?}");
}
