//! Tests of pods that are evicted after their copies, with an end of the wait.

use std::sync::Arc;

use api::objects::{Node, Pod};
use api::{annotation, condition, label, reason};
use serde_json::{Value, json};

use super::super::{NodeDecision, NodeView, decide, start_drain};
use super::surging_pods;
use crate::fixture::{at, body, claim, merge, node, pod, pool, status, words, written};
use crate::reconcile::nodeclaim::InstanceState;
use crate::state::index::Index;

const STATUS: &str = "status of claim default-1";

/// Returns a pod of the Deployment `web` with this change. Without it, the pod is on the node, ready, and as old as the node.
fn of_web(name: &str, change: &Value) -> Arc<Pod> {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d9", "uid": "rs", "controller": true});
    let mut all = json!({
        "metadata": {
            "name": name, "uid": name, "ownerReferences": [owner], "creationTimestamp": at(0).to_string(),
            "labels": {"app": "web", label::POD_TEMPLATE_HASH: "7d9"},
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    merge(&mut all, change);
    pod(&all)
}

fn asks() -> Value {
    json!({"metadata": {"annotations": {annotation::SURGE: "true"}}})
}

/// Returns a pod that was detached this many seconds after the creation of its node.
fn let_go(name: &str, since: i64) -> Arc<Pod> {
    let surged = format!("rs web-7d9 {}", at(since));
    let annotations = json!({annotation::SURGE: "true", annotation::SURGED: surged});
    of_web(
        name,
        &json!({"metadata": {
            "annotations": annotations, "ownerReferences": null, "labels": {label::POD_TEMPLATE_HASH: null},
        }}),
    )
}

/// Returns a copy that its ReplicaSet created elsewhere at this time.
fn copy(name: &str, made: i64, ready: &str) -> Arc<Pod> {
    of_web(
        name,
        &json!({
            "metadata": {"creationTimestamp": at(made).to_string()},
            "spec": {"nodeName": "node-2"},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }),
    )
}

/// Node that terminates since its hundredth second.
struct Fixture {
    index: Index,
    node: Arc<Node>,
    claim: Value,
}

impl Fixture {
    fn with(pods: &[Arc<Pod>]) -> Self {
        let node = node(&json!({
            "metadata": {
                "deletionTimestamp": at(100).to_string(), "finalizers": ["karpenter.sh/termination"],
                "annotations": {annotation::AGENT_HEARTBEAT: at(100).to_string()},
            },
            "spec": {"taints": [{"key": api::taint::DISRUPTED, "effect": "NoSchedule"}]},
        }));
        let mut ending = status(&[]);
        merge(&mut ending, &json!({"metadata": {"deletionTimestamp": at(100).to_string()}}));
        let mut index = Index::default();
        for pod in pods {
            drop(index.apply(pod.as_ref().clone(), at(0), true));
        }
        Self { index, node, claim: ending }
    }

    fn with_pool(mut self, annotations: &Value) -> Self {
        let pool = pool(&json!({"metadata": {"annotations": annotations}}));
        drop(self.index.apply(pool.as_ref().clone(), at(0), true));
        self
    }

    fn ending_by(mut self, seconds: i64) -> Self {
        let deadline = json!({annotation::TERMINATION_TIMESTAMP: at(seconds).to_string()});
        merge(&mut self.claim, &json!({"metadata": {"annotations": deadline}}));
        self
    }

    /// Reports an interruption by the agent, whose instance ends at this time.
    fn interrupted_until(mut self, seconds: i64) -> Self {
        let mut changed = serde_json::to_value(self.node.as_ref()).unwrap();
        let notice = json!({"type": condition::INTERRUPTED, "status": "True", "reason": reason::SPOT_INTERRUPTION});
        merge(
            &mut changed,
            &json!({
                "metadata": {"annotations": {annotation::INTERRUPTION_DEADLINE: at(seconds).to_string()}},
                "status": {"conditions": [notice]},
            }),
        );
        self.node = Arc::new(serde_json::from_value(changed).unwrap());
        self
    }

    /// Removes the taint of a terminating node.
    fn open(mut self) -> Self {
        let mut changed = serde_json::to_value(self.node.as_ref()).unwrap();
        changed["spec"]["taints"] = json!([]);
        self.node = Arc::new(serde_json::from_value(changed).unwrap());
        self
    }

    fn view(&self, seconds: i64) -> NodeView {
        let claim = claim(&self.claim);
        NodeView {
            surging: surging_pods(&self.index, &self.node, Some(&claim)),
            claim: Some(claim),
            pods: self.index.pods_on("node-1").cloned().collect(),
            attached: Vec::new(),
            instance: InstanceState::Alive,
            now: at(seconds),
            node: Arc::clone(&self.node),
        }
    }

    fn decide_at(&self, seconds: i64) -> NodeDecision {
        let view = self.view(seconds);
        decide(&view, &mut start_drain(&view))
    }
}

/// Reports whether pods are evicted, by the agent or by the controller.
fn drains(decision: &NodeDecision) -> bool {
    words(&decision.steps).contains(&"patch node node-1".to_owned()) || !decision.requests.is_empty()
}

#[test]
fn decide_detaches_pods_before_any_eviction() {
    let decision = Fixture::with(&[of_web("web-7d9-a", &asks()), pod(&json!({}))]).decide_at(110);
    assert_eq!(words(&decision.steps), ["patch pod web-7d9-a", "event Surging", STATUS]);
    assert!(decision.requests.is_empty(), "others wait too");
    assert_eq!(decision.after.map(|after| after.as_secs()), Some(1));
    let change = &body(&decision.steps)["metadata"];
    assert_eq!(change["labels"], json!({label::POD_TEMPLATE_HASH: null}));
    assert_eq!(change["annotations"][annotation::SURGED], format!("rs web-7d9 {}", at(110)));
    let (state, why, message) = written(&decision.steps, condition::DRAINED).unwrap();
    assert_eq!((state.as_str(), why.as_str()), ("Unknown", reason::DRAINING));
    assert_eq!(message, "waiting for copies of default/web-7d9-a");
}

#[test]
fn decide_drains_when_the_copy_is_ready() {
    let gone = let_go("web-7d9-a", 110);
    let rows = [
        ("nothing was made yet", vec![], 111, false),
        ("made and not ready", vec![copy("web-7d9-b", 110, "False")], 112, false),
        ("ready", vec![copy("web-7d9-b", 110, "True")], 113, true),
        ("ready, by a clock that is late", vec![copy("web-7d9-b", 95, "True")], 113, true),
        ("another was ready long before", vec![copy("web-7d9-b", 10, "True")], 113, false),
        ("its ReplicaSet wants none", vec![], 410, true),
        ("wanted and not ready for an hour", vec![copy("web-7d9-b", 110, "False")], 3700, false),
    ];
    for (what, copies, seconds, expected) in rows {
        let pods: Vec<_> = copies.into_iter().chain([Arc::clone(&gone)]).collect();
        assert_eq!(drains(&Fixture::with(&pods).decide_at(seconds)), expected, "{what}");
    }
}

#[test]
fn decide_waits_for_one_copy_per_detached_pod() {
    let two = [let_go("web-7d9-a", 110), let_go("web-7d9-b", 110)];
    let one_up = [copy("web-7d9-c", 110, "True"), copy("web-7d9-d", 110, "False")];
    let both_up = [copy("web-7d9-c", 110, "True"), copy("web-7d9-d", 110, "True")];
    for (copies, expected) in [(one_up, false), (both_up, true)] {
        let pods: Vec<_> = two.iter().cloned().chain(copies).collect();
        assert_eq!(drains(&Fixture::with(&pods).decide_at(120)), expected);
    }
}

#[test]
fn decide_reports_a_copy_that_is_slow() {
    let pods = [let_go("web-7d9-a", 110), copy("web-7d9-b", 110, "False")];
    assert_eq!(words(&Fixture::with(&pods).decide_at(169).steps), [STATUS]);
    assert_eq!(words(&Fixture::with(&pods).decide_at(170).steps), ["event FailedDraining", STATUS]);
}

#[test]
fn decide_drains_without_a_copy_when_the_deadline_is_near() {
    let pods = [of_web("web-7d9-a", &asks())];
    assert!(
        !drains(&Fixture::with(&pods).ending_by(300).decide_at(209)),
        "30 s of grace and a minute for evictions are left"
    );
    assert!(drains(&Fixture::with(&pods).ending_by(300).decide_at(210)));
    assert!(drains(&Fixture::with(&[let_go("web-7d9-a", 110)]).ending_by(300).decide_at(210)));
}

/// The agent has evicted all other pods. The rest of the two minutes is time for copies.
#[test]
fn decide_waits_for_copies_after_a_notice() {
    let others = pod(&json!({"spec": {"terminationGracePeriodSeconds": 600}}));
    let pods = [let_go("web-7d9-a", 110), others];
    for (seconds, expected) in [(110, false), (174, false), (175, true)] {
        let decision = Fixture::with(&pods).interrupted_until(220).decide_at(seconds);
        assert_eq!(drains(&decision), expected, "{seconds}");
    }
    let ready = [let_go("web-7d9-a", 110), copy("web-7d9-b", 110, "True")];
    assert!(drains(&Fixture::with(&ready).interrupted_until(220).decide_at(115)));
}

/// The grace period of 120 s leaves no time before the end of the instance.
#[test]
fn decide_starts_copies_with_the_drain_when_the_deadline_is_near() {
    let long = json!({"spec": {"terminationGracePeriodSeconds": 120}});
    let mut asking = asks();
    merge(&mut asking, &long);
    let fixture = Fixture::with(&[of_web("web-7d9-a", &asking)]).interrupted_until(220).open();
    let steps = words(&fixture.decide_at(110).steps);
    assert_eq!(steps, ["patch node node-1", "patch pod web-7d9-a", "event Surging"]);
    let patient = Fixture::with(&[of_web("web-7d9-a", &asks())]).interrupted_until(220).open();
    assert_eq!(words(&patient.decide_at(110).steps), ["patch node node-1"]);
}

#[test]
fn surging_pods_includes_single_pods_when_the_nodepool_surges() {
    let single = || vec![of_web("web-7d9-a", &json!({}))];
    let pair = || vec![of_web("web-7d9-a", &json!({})), copy("web-7d9-b", 0, "True")];
    let asks = json!({annotation::SURGE: "true"});
    for (pods, annotations, expected) in [(single(), &asks, 1), (pair(), &asks, 0), (single(), &json!({}), 0)] {
        let fixture = Fixture::with(&pods).with_pool(annotations);
        assert_eq!(fixture.view(110).surging.len(), expected, "{annotations}");
    }
}

/// A pod that was detached while the permission existed still waits for its copy.
#[test]
fn surging_pods_starts_no_copy_without_the_permission() {
    let mut fixture = Fixture::with(&[of_web("web-7d9-a", &asks()), let_go("web-7d9-b", 90)]);
    assert_eq!(fixture.view(110).surging.len(), 2);
    fixture.index.permissions.surge = false;
    let left: Vec<String> = fixture.view(110).surging.iter().map(|it| it.pod.name().to_owned()).collect();
    assert_eq!(left, ["web-7d9-b"]);
}

#[test]
fn decide_detaches_no_pod_after_the_drain_request() {
    let fixture = Fixture::with(&[of_web("web-7d9-a", &asks())]);
    let mut view = fixture.view(110);
    view.surging.clear();
    let asked = decide(&view, &mut start_drain(&view));
    let mut changed = serde_json::to_value(fixture.node.as_ref()).unwrap();
    merge(&mut changed, &body(&asked.steps));
    let view = NodeView { node: Arc::new(serde_json::from_value(changed).unwrap()), ..fixture.view(111) };
    assert!(!words(&decide(&view, &mut start_drain(&view)).steps).contains(&"patch pod web-7d9-a".to_owned()));
}
