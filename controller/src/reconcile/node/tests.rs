//! Tests of the termination of a node, by decision.

use api::status::Conditioned;
use api::{DrainRequest, DrainTaken, annotation, condition, label, reason, taint};
use serde_json::{Value, json};

use super::{InstanceState, NodeDecision, NodeView, PodRequest, asks, concerns, decide, next_moment, start_drain};
use crate::fixture::{at, body, claim, condition as cond, merge, node, pod, status, words, written};

const TERMINATE: &str = "terminate i-1";
const STATUS: &str = "status of claim default-1";
const RELEASE: &str = "patch node node-1";

/// Returns a node that was deleted 100 s after its creation and is tainted.
fn leaving(change: &Value) -> Value {
    let mut all = json!({
        "metadata": {"deletionTimestamp": at(100).to_string(), "finalizers": ["other", "karpenter.sh/termination"]},
        "spec": {"taints": [{"key": taint::DISRUPTED, "effect": "NoSchedule"}]},
    });
    merge(&mut all, change);
    all
}

/// Returns its NodeClaim, which is being deleted too, with these conditions.
fn ending(conditions: &[Value]) -> Value {
    let mut all = status(conditions);
    merge(&mut all, &json!({"metadata": {"deletionTimestamp": at(100).to_string()}}));
    all
}

fn drained(word: &str, since: i64) -> Value {
    ending(&[cond(condition::DRAINED, word, since)])
}

fn node_view(
    node_change: &Value,
    claim_change: &Value,
    pods: &[Value],
    instance: InstanceState,
    seconds: i64,
) -> NodeView {
    NodeView {
        node: node(node_change),
        claim: Some(claim(claim_change)),
        pods: pods.iter().map(pod).collect(),
        surging: Vec::new(),
        attached: Vec::new(),
        instance,
        now: at(seconds),
    }
}

/// Decides as a controller that has signed itself.
fn fresh(view: &NodeView) -> NodeDecision {
    let mut drain = start_drain(view);
    drain.sign();
    decide(view, &mut drain)
}

/// Returns the node after the controller signed for its drain at this time.
fn signed(change: &Value, seconds: i64) -> Value {
    let taken = DrainTaken { id: "termination-node-uid".into(), reason: "its agent sleeps".into(), at: at(seconds) };
    let mut all = change.clone();
    merge(&mut all, &json!({"metadata": {"annotations": {annotation::DRAIN_TAKEN_OVER: taken.to_string()}}}));
    all
}

/// Returns the signature of the controller in the first patch.
fn signature(decision: &NodeDecision) -> Option<DrainTaken> {
    let body = body(&decision.steps);
    assert!(body["metadata"]["resourceVersion"].is_string() || body["metadata"]["annotations"].is_null(), "{body}");
    DrainTaken::parse(body["metadata"]["annotations"][annotation::DRAIN_TAKEN_OVER].as_str()?)
}

fn requests(decision: &NodeDecision) -> Vec<String> {
    decision.requests.iter().flat_map(|PodRequest { step, .. }| words(std::slice::from_ref(step))).collect()
}

#[test]
fn concerns_returns_true_when_a_deleted_node_has_our_finalizer() {
    let held = json!({"metadata": {"finalizers": ["karpenter.sh/termination"]}});
    let foreign = json!({"metadata": {"deletionTimestamp": at(1).to_string(), "finalizers": ["other"]}});
    for (change, expected) in [(json!({}), false), (held, false), (foreign, false), (leaving(&json!({})), true)] {
        assert_eq!(concerns(&node(&change), None), expected, "{change}");
    }
}

#[test]
fn concerns_returns_true_when_a_deleted_node_removed_our_finalizer() {
    let foreign = json!({"metadata": {"deletionTimestamp": at(1).to_string(), "finalizers": ["other"]}});
    let terminating = ending(&[cond(condition::INSTANCE_TERMINATING, "True", 105)]);
    let rows = [(status(&[]), true), (ending(&[]), true), (terminating, false)];
    for (change, expected) in rows {
        assert_eq!(concerns(&node(&foreign), Some(&claim(&change))), expected, "{change}");
    }
    let stripped = json!({"metadata": {"finalizers": ["other"]}});
    let view = node_view(&leaving(&stripped), &drained("True", 105), &[], InstanceState::Alive, 120);
    assert_eq!(words(&fresh(&view).steps), [TERMINATE, STATUS]);
    let gone = NodeView { instance: InstanceState::Gone, ..view };
    let decision = fresh(&gone);
    assert!(decision.steps.is_empty() && !decision.released, "{:?}", decision.steps);
}

#[test]
fn decide_deletes_the_claim_of_a_deleted_node() {
    let decision = fresh(&node_view(&leaving(&json!({})), &status(&[]), &[], InstanceState::Alive, 110));
    assert_eq!(words(&decision.steps)[0], "delete claim default-1 (claim-uid)");
}

#[test]
fn decide_taints_the_node_and_excludes_traffic_first() {
    let open = leaving(&json!({"spec": {"taints": [{"key": "own", "effect": "NoExecute"}]}}));
    let decision = fresh(&node_view(&open, &ending(&[]), &[json!({})], InstanceState::Alive, 110));
    assert_eq!(words(&decision.steps), ["patch node node-1"]);
    assert!(decision.requests.is_empty(), "no pod is asked before the node is closed");
    let body = body(&decision.steps);
    assert_eq!(body["metadata"]["labels"][label::EXCLUDE_BALANCERS], label::KARPENTER);
    assert_eq!(signature(&decision).map(|taken| taken.at), Some(at(110)), "no agent is there to be asked");
    let keys: Vec<&str> = body["spec"]["taints"].as_array().unwrap().iter().filter_map(|t| t["key"].as_str()).collect();
    assert_eq!(keys, ["own", taint::DISRUPTED]);
}

#[test]
fn decide_evicts_pods_before_the_instance_ends() {
    let decision =
        fresh(&node_view(&signed(&leaving(&json!({})), 110), &ending(&[]), &[json!({})], InstanceState::Alive, 110));
    assert_eq!(requests(&decision), ["evict web"]);
    assert_eq!(words(&decision.steps), [STATUS]);
    let (state, why, message) = written(&decision.steps, condition::DRAINED).unwrap();
    assert_eq!((state.as_str(), why.as_str()), ("Unknown", reason::DRAINING));
    assert_eq!(message, "1 pods left");
    assert!(decision.after.is_some());
}

/// Even an empty node waits 5 s, so that a pod that was bound before the taint is seen.
#[test]
fn decide_waits_five_seconds_when_the_node_is_empty() {
    let rows = [
        ("first look", ending(&[]), InstanceState::Alive, vec![STATUS], Some(5000)),
        ("after 4 s", drained("Unknown", 106), InstanceState::Alive, vec![STATUS], Some(1000)),
        ("after 5 s", drained("Unknown", 105), InstanceState::Alive, vec![TERMINATE, STATUS], Some(1000)),
        ("terminating", drained("True", 109), InstanceState::Ending, vec![STATUS], Some(1000)),
        ("ended", drained("True", 109), InstanceState::Gone, vec![RELEASE], None),
        ("unknown instance", drained("Unknown", 105), InstanceState::Unknown, vec![STATUS], Some(1000)),
    ];
    for (what, claim, instance, expected, after) in rows {
        let decision = fresh(&node_view(&leaving(&json!({})), &claim, &[], instance, 110));
        assert_eq!(words(&decision.steps), expected, "{what}");
        assert_eq!(decision.after.map(|after| after.as_millis()), after, "{what}");
        assert_eq!(decision.released, expected == [RELEASE], "{what}");
    }
}

/// A drained node remains drained: the wait for the instance does not begin the drain again.
#[test]
fn decide_keeps_drained_when_the_instance_is_ending() {
    let view = node_view(&leaving(&json!({})), &drained("True", 109), &[], InstanceState::Ending, 110);
    let decision = fresh(&view);
    assert_eq!(written(&decision.steps, condition::DRAINED).unwrap().0, "True");
    assert!(!view.claim.unwrap().is_true(condition::INSTANCE_TERMINATING), "so the status is news");
}

#[test]
fn decide_releases_the_node_when_its_instance_is_gone() {
    let silent = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    let rows = [
        ("silent and gone", silent.clone(), InstanceState::Gone, true),
        ("silent, but EC2 runs it", silent.clone(), InstanceState::Alive, false),
        ("silent, and EC2 was not asked", silent, InstanceState::Unknown, false),
        ("gone, but kubelet answers", json!({}), InstanceState::Gone, false),
    ];
    for (what, state, instance, released) in rows {
        let decision = fresh(&node_view(&leaving(&state), &ending(&[]), &[json!({})], instance, 110));
        assert_eq!(decision.released, released, "{what}");
        if released {
            assert_eq!(body(&decision.steps)["metadata"]["finalizers"], json!(["other"]), "{what}");
        }
    }
}

/// EC2 is called when the decision depends on the instance, not while pods are evicted.
#[test]
fn asks_returns_true_when_drained_or_not_ready() {
    let silent = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    let open = json!({"spec": {"taints": null}});
    let pod = || vec![json!({})];
    let rows = [
        ("pods are left", json!({}), drained("Unknown", 100), pod(), false),
        ("pods are left, kubelet is silent", silent, drained("Unknown", 100), pod(), true),
        ("not closed yet", open, ending(&[]), vec![], false),
        ("a late pod may show", json!({}), drained("Unknown", 106), vec![], false),
        ("drained", json!({}), drained("Unknown", 105), vec![], true),
        ("terminating", json!({}), drained("True", 109), vec![], true),
    ];
    for (what, node, claim, pods, asked) in rows {
        let mut view = node_view(&leaving(&node), &claim, &pods, InstanceState::Unknown, 110);
        assert_eq!(asks(&view, &mut start_drain(&view)), asked, "{what}");
        view.attached = vec!["pv-1".to_owned()];
        let drained = asked && view.node.is_ready();
        assert_eq!(asks(&view, &mut start_drain(&view)), asked && !drained, "{what}, a volume is attached");
        view.claim = None;
        assert_eq!(asks(&view, &mut start_drain(&view)), asked && !drained, "{what}, but the instance is not ours");
    }
}

/// A draining node is reconciled at the next moment of the drain, or when the agent's time is over. A drain without work
/// occupies no worker.
#[test]
fn next_moment_follows_the_agent_and_the_drain() {
    use drain::{Millis, Reply};
    let millis = |view: &NodeView| Millis(u64::try_from(view.now.as_millisecond()).unwrap());
    let draining = Some(("False", reason::DRAINING, "for=termination-node-uid left=1"));
    let rows = [
        ("its agent was asked 2 s ago", asked(290, 298, None), 3000),
        ("its agent was heard a second ago", asked(299, 200, draining), 5000),
        ("its agent was heard 28 s ago", asked(272, 200, draining), 2000),
    ];
    for (what, node, after) in rows {
        let view = node_view(&node, &ending(&[]), &[json!({})], InstanceState::Unknown, 300);
        assert_eq!(fresh(&view).after.map(|after| after.as_millis()), Some(after), "{what}");
    }
    let view = node_view(&signed(&leaving(&json!({})), 300), &ending(&[]), &[json!({})], InstanceState::Unknown, 300);
    let mut drain = start_drain(&view);
    drain.sign();
    let uid = decide(&view, &mut drain).requests.remove(0).uid;
    assert_eq!(next_moment(&view, &drain).as_millis(), 5000, "an answer is news");
    let budget = Some("stays".to_owned());
    drain.reply(millis(&view), &uid, &Reply::Blocked { budget, retry_after: None });
    let next = next_moment(&view, &drain);
    assert_eq!(Some(millis(&view) + next), drain.poll_timeout(millis(&view)), "the budget is asked again");
    assert!(next.as_millis() >= 100, "{next:?}");
}

/// The longer an instance takes to end, the less often it is checked.
#[test]
fn decide_checks_an_ending_instance_less_and_less() {
    let since = |terminating| {
        ending(&[cond(condition::DRAINED, "True", 100), cond(condition::INSTANCE_TERMINATING, "True", terminating)])
    };
    let rows = [(110, 1000), (102, 1000), (86, 3000), (0, 5000)];
    for (seconds, after) in rows {
        let decision = fresh(&node_view(&leaving(&json!({})), &since(seconds), &[], InstanceState::Ending, 110));
        assert_eq!(decision.after.map(|after| after.as_millis()), Some(after), "terminating for {} s", 110 - seconds);
    }
}

/// Returns the node after a request at `asked`, with an agent that reported at `heartbeat` and has the drain condition `reported`.
fn asked(heartbeat: i64, asked: i64, reported: Option<(&str, &str, &str)>) -> Value {
    let request = json!({"id": "termination-node-uid", "daemonSets": true, "termination": true, "asked": at(asked)});
    let request = request.to_string();
    let reported: Vec<Value> = reported
        .into_iter()
        .map(|(word, why, message)| json!({"type": condition::NODE_DRAINED, "status": word, "reason": why, "message": message}))
        .collect();
    leaving(&json!({
        "metadata": {"annotations": {annotation::AGENT_HEARTBEAT: at(heartbeat).to_string(), annotation::DRAIN: request}},
        "status": {"conditions": reported},
    }))
}

/// The patch that taints the node contains the request to a live agent, with all parameters.
#[test]
fn decide_requests_the_drain_when_an_agent_is_live() {
    let deadline = json!({"metadata": {"annotations": {annotation::TERMINATION_TIMESTAMP: at(400).to_string()}}});
    let mut claim = ending(&[cond(condition::DISRUPTION_REASON, "True", 100)]);
    merge(&mut claim, &deadline);
    for (heartbeat, listens) in [(Some(300), true), (Some(121), true), (Some(120), false), (None, false)] {
        let heartbeat = heartbeat.map(|heartbeat| at(heartbeat).to_string());
        let open = leaving(&json!({
            "metadata": {"annotations": {annotation::AGENT_HEARTBEAT: heartbeat}}, "spec": {"taints": null},
        }));
        let decision = fresh(&node_view(&open, &claim, &[json!({})], InstanceState::Alive, 300));
        let request = body(&decision.steps)["metadata"]["annotations"][annotation::DRAIN].as_str().map(str::to_owned);
        assert_eq!((request.is_some(), signature(&decision).is_none()), (listens, listens), "{heartbeat:?}");
        let Some(request) = request.and_then(|text| DrainRequest::parse(&text).ok()) else { continue };
        assert_eq!(request.id, "termination-node-uid");
        assert_eq!((request.deadline, request.requested_at), (Some(at(400)), Some(at(300))));
        assert!(request.daemon_sets && request.termination);
    }
}

/// The agent drains while it responds, and the controller drains after that. The controller signs first, and evicts no pod in
/// the same decision.
#[test]
fn decide_takes_over_when_the_agent_does_not_answer() {
    let ours = "for=spot-1,termination-node-uid evicted=1 forced=0 left=1 seconds=3";
    let draining = Some(("False", reason::DRAINING, ours));
    let rows = [
        ("asked 4 s ago", asked(290, 296, None), None),
        ("not acknowledged in 5 s", asked(290, 295, None), Some("did not acknowledge")),
        (
            "drains for another",
            asked(290, 295, Some(("False", reason::DRAINING, "for=x"))),
            Some("did not acknowledge"),
        ),
        ("acknowledged", asked(271, 200, draining), None),
        ("acknowledged, then silent", asked(270, 200, draining), Some("no report of the agent for 30 s")),
        ("says that it is done", asked(299, 200, Some(("True", condition::DRAINED, ours))), Some("pods are left")),
        ("gave up in time", asked(299, 200, Some(("False", reason::DRAIN_INCOMPLETE, ours))), Some("pods are left")),
    ];
    for (what, node, why) in rows {
        let decision = fresh(&node_view(&node, &ending(&[]), &[json!({})], InstanceState::Alive, 300));
        assert!(decision.requests.is_empty(), "{what}");
        let taken = signature(&decision);
        assert_eq!(taken.is_some(), why.is_some(), "{what}");
        if let Some((taken, why)) = taken.zip(why) {
            assert!(taken.reason.contains(why) && taken.at == at(300), "{what}: {taken:?}");
        }
        let events = words(&decision.steps).iter().any(|step| step == "event DrainTakenOver");
        assert_eq!(events, why.is_some(), "{what}");
        assert!(decision.after.is_some(), "{what}: it keeps looking");
    }
}

/// Requests that the agent sent before it could see the signature arrive within twenty seconds. Until then the controller sends
/// none.
#[test]
fn decide_evicts_after_the_last_agent_requests_arrived() {
    let draining = Some(("False", reason::DRAINING, "for=termination-node-uid left=1"));
    let silent = || asked(260, 200, draining);
    let seen = |node: &Value, seconds| node_view(node, &ending(&[]), &[json!({})], InstanceState::Alive, seconds);
    let first = seen(&silent(), 300);
    let mut drain = start_drain(&first);
    assert!(signature(&decide(&first, &mut drain)).is_some());
    let node = signed(&silent(), 300);
    let rows = [(301, false, false), (320, false, false), (321, true, false)];
    for (seconds, asks, signs) in rows {
        let decision = decide(&seen(&node, seconds), &mut drain);
        assert_eq!((!decision.requests.is_empty(), signature(&decision).is_some()), (asks, signs), "{seconds}");
        assert!(decision.requests.iter().all(|request| request.by == super::millis(at(330))), "{seconds}");
        assert!(words(&decision.steps).contains(&"event DrainTakenOver".to_owned()), "{seconds}");
    }
}

/// A signature is valid for half a minute. The signature of another controller does not count.
#[test]
fn decide_signs_again_when_the_signature_is_old_or_foreign() {
    let node = signed(&leaving(&json!({})), 300);
    for (seconds, signs) in [(300, false), (329, false), (330, true), (299, true)] {
        let decision = fresh(&node_view(&node, &ending(&[]), &[json!({})], InstanceState::Alive, seconds));
        assert_eq!((signature(&decision).is_some(), decision.requests.is_empty()), (signs, signs), "{seconds}");
    }
    let view = node_view(&node, &ending(&[]), &[json!({})], InstanceState::Alive, 301);
    let successor = decide(&view, &mut start_drain(&view));
    assert!(signature(&successor).is_some() && successor.requests.is_empty());
}

/// The controller does not return a drain that it took over. An agent that takes the drain back is its owner.
#[test]
fn decide_keeps_the_drain_until_the_agent_takes_it_back() {
    let draining = Some(("False", reason::DRAINING, "for=termination-node-uid left=1"));
    let back = asked(299, 200, draining);
    for (what, node, ours) in [("signed", signed(&back, 290), true), ("taken back", back, false)] {
        let decision = fresh(&node_view(&node, &ending(&[]), &[json!({})], InstanceState::Alive, 300));
        let taken_over = words(&decision.steps).contains(&"event DrainTakenOver".to_owned());
        assert_eq!((taken_over, decision.requests.is_empty()), (ours, true), "{what}");
        assert!(signature(&decision).is_none(), "{what}");
    }
}

/// Returns the claim with a deadline, and with the record of a controller that keeps the drain.
fn recorded(deadline: i64, record: Option<i64>) -> Value {
    let record = record.map(|seconds| {
        DrainTaken { id: "termination-node-uid".into(), reason: "no pod left".into(), at: at(seconds) }.to_string()
    });
    let mut all = ending(&[]);
    let annotations =
        json!({annotation::TERMINATION_TIMESTAMP: at(deadline).to_string(), annotation::DRAIN_TAKEN_OVER: record});
    merge(&mut all, &json!({"metadata": {"annotations": annotations}}));
    all
}

/// Nodes that delay their drain, by root on the node or by an agent whose drain hangs.
fn liars(now: i64) -> [(&'static str, Value); 5] {
    let draining = Some(("False", reason::DRAINING, "for=termination-node-uid left=1"));
    let heartbeat = json!({"metadata": {"annotations": {annotation::AGENT_HEARTBEAT: at(now + 9000).to_string()}}});
    let mut future = asked(now, now + 9000, None);
    merge(&mut future, &heartbeat);
    [
        ("drains for ever", asked(now, 110, draining)),
        ("says nothing, with a request of the future", asked(now, now + 9000, None)),
        ("removes each request", leaving(&heartbeat)),
        ("reports from the future", future),
        ("signs each time for the future", signed(&asked(now, 110, draining), now + 9000)),
    ]
}

/// Without an end of the drain, the controller records on the NodeClaim that it keeps the drain, which no node can undo.
#[test]
fn decide_keeps_the_drain_when_a_node_delays_it_past_the_deadline() {
    for (what, node) in liars(431) {
        let early = node_view(&node, &recorded(402, None), &[json!({})], InstanceState::Alive, 431);
        let waits = fresh(&early);
        assert!(
            words(&waits.steps).iter().all(|step| step != "patch claim default-1"),
            "{what}: 29 s after the deadline"
        );
        let view = node_view(&node, &recorded(401, None), &[json!({})], InstanceState::Alive, 431);
        let mut drain = start_drain(&view);
        let decision = decide(&view, &mut drain);
        let steps = words(&decision.steps);
        for step in ["patch node node-1", "patch claim default-1"] {
            assert!(steps.contains(&step.to_owned()), "{what}: {steps:?}");
        }
        assert!(decision.requests.is_empty(), "{what}: not before the record");
        for (seconds, asks) in [(432, false), (452, true)] {
            let view = node_view(&node, &recorded(401, Some(431)), &[json!({})], InstanceState::Alive, seconds);
            let decision = decide(&view, &mut drain);
            assert_eq!(requests(&decision).contains(&"delete pod web".to_owned()), asks, "{what}: {seconds}");
        }
    }
}

#[test]
fn decide_keeps_the_drain_when_no_pod_leaves_for_ten_minutes() {
    for (what, _) in liars(0) {
        let node = |now| liars(now).into_iter().find(|(name, _)| *name == what).unwrap().1;
        let first = node_view(
            &node(200),
            &ending(&[]),
            &[json!({}), json!({"metadata": {"uid": "2"}})],
            InstanceState::Alive,
            200,
        );
        let mut drain = start_drain(&first);
        let mut keeps = |seconds: i64, pods: &[Value]| {
            let view = node_view(&node(seconds), &ending(&[]), pods, InstanceState::Alive, seconds);
            words(&decide(&view, &mut drain).steps).contains(&"patch claim default-1".to_owned())
        };
        assert!(!keeps(200, &[json!({}), json!({"metadata": {"uid": "2"}})]), "{what}");
        assert!(!keeps(400, &[json!({})]), "{what}: a pod left");
        assert!(!keeps(999, &[json!({})]), "{what}");
        assert!(keeps(1000, &[json!({})]), "{what}");
    }
}

/// A notice during a termination brings the deadline forward, for the agent and for the controller.
#[test]
fn deadline_moves_forward_when_a_notice_arrives() {
    let notice = |word: &str, why: &str| {
        leaving(&json!({
            "metadata": {"annotations": {annotation::INTERRUPTION_DEADLINE: at(400).to_string()}},
            "status": {"conditions": [{"type": condition::INTERRUPTED, "status": word, "reason": why}]},
        }))
    };
    let held = json!({"metadata": {"annotations": {annotation::DO_NOT_DISRUPT: "true"}}});
    let rows = [
        ("a notice", notice("True", reason::SPOT_INTERRUPTION), true),
        ("one that is over", notice("False", reason::INTERRUPTION_OVER), false),
        ("a recommendation", notice("True", reason::REBALANCE_RECOMMENDATION), false),
    ];
    for (what, node, forced) in rows {
        let node = signed(&node, 370);
        let view = node_view(&node, &ending(&[]), std::slice::from_ref(&held), InstanceState::Alive, 370);
        assert_eq!(requests(&fresh(&view)).contains(&"delete pod web".to_owned()), forced, "{what}");
        assert_eq!(super::drain_owner::request(&view).deadline, Some(at(400)).filter(|_| forced), "{what}");
    }
}

#[test]
fn decide_asks_again_when_deadline_changes_or_request_is_gone() {
    let deadline = json!({"metadata": {"annotations": {annotation::TERMINATION_TIMESTAMP: at(400).to_string()}}});
    let mut claim = ending(&[]);
    merge(&mut claim, &deadline);
    let ours = Some(("False", reason::DRAINING, "for=termination-node-uid left=1"));
    let unasked = leaving(&json!({"metadata": {"annotations": {annotation::AGENT_HEARTBEAT: at(290).to_string()}}}));
    for (node, since) in [(asked(290, 200, ours), 200), (unasked, 300)] {
        let decision = fresh(&node_view(&node, &claim, &[json!({})], InstanceState::Alive, 300));
        assert!(decision.requests.is_empty());
        let request = body(&decision.steps)["metadata"]["annotations"][annotation::DRAIN].as_str().unwrap().to_owned();
        let request = DrainRequest::parse(&request).unwrap();
        assert_eq!((request.deadline, request.requested_at), (Some(at(400)), Some(at(since))));
    }
}

/// Another controller finds request and answer on the node, and does not ask again.
#[test]
fn decide_repeats_no_request_when_the_controller_restarts() {
    let ours = Some(("False", reason::DRAINING, "for=termination-node-uid left=1"));
    let decision = fresh(&node_view(&asked(290, 200, ours), &ending(&[]), &[json!({})], InstanceState::Alive, 300));
    assert!(decision.requests.is_empty());
    assert_eq!(words(&decision.steps), [STATUS]);
}

/// A pod with do-not-disrupt remains until its own grace period before the deadline, then it is deleted.
#[test]
fn decide_deletes_pods_when_the_deadline_is_near() {
    let held = json!({"metadata": {"annotations": {annotation::DO_NOT_DISRUPT: "true"}}});
    let deadline = json!({"metadata": {"annotations": {annotation::TERMINATION_TIMESTAMP: at(400).to_string()}}});
    let with_deadline = |conditions: &[Value]| {
        let mut all = ending(conditions);
        merge(&mut all, &deadline);
        all
    };
    let rows = [
        ("no deadline", ending(&[]), 500, false),
        ("long before it", with_deadline(&[]), 110, false),
        ("31 s before it", with_deadline(&[]), 369, false),
        ("30 s before it", with_deadline(&[]), 370, true),
        ("after it", with_deadline(&[]), 401, true),
    ];
    for (what, claim, seconds, forced) in rows {
        let node = signed(&leaving(&json!({})), seconds);
        let view = node_view(&node, &claim, std::slice::from_ref(&held), InstanceState::Alive, seconds);
        let decision = fresh(&view);
        assert_eq!(requests(&decision).contains(&"delete pod web".to_owned()), forced, "{what}");
        assert!(!requests(&decision).contains(&"evict web".to_owned()) || forced, "{what}");
    }
}

#[test]
fn decide_terminates_no_instance_when_the_claim_is_missing() {
    let mut view = node_view(&signed(&leaving(&json!({})), 110), &json!({}), &[json!({})], InstanceState::Alive, 110);
    view.claim = None;
    assert_eq!(requests(&fresh(&view)), ["evict web"]);
    view.pods.clear();
    let decision = fresh(&view);
    assert_eq!(words(&decision.steps), [RELEASE]);
    assert!(decision.released);
}

/// The termination waits only for volumes of evicted pods (the index omits the others), and not beyond the deadline.
#[test]
fn decide_waits_for_volumes_until_the_deadline() {
    let deadline = json!({"metadata": {"annotations": {annotation::TERMINATION_TIMESTAMP: at(200).to_string()}}});
    let mut ending = drained("True", 110);
    merge(&mut ending, &deadline);
    let attached = |seconds| NodeView {
        attached: vec!["pv-1".to_owned()],
        ..node_view(&leaving(&json!({})), &ending, &[], InstanceState::Alive, seconds)
    };
    let waiting = fresh(&attached(150));
    assert_eq!(words(&waiting.steps), [STATUS, "event AwaitingVolumeDetachment"]);
    let (state, why, _) = written(&waiting.steps, condition::VOLUMES_DETACHED).unwrap();
    assert_eq!((state.as_str(), why.as_str()), ("Unknown", reason::AWAITING_VOLUME_DETACHMENT));

    let late = fresh(&attached(201));
    assert_eq!(words(&late.steps), [TERMINATE, STATUS]);
    let (state, why, _) = written(&late.steps, condition::VOLUMES_DETACHED).unwrap();
    assert_eq!((state.as_str(), why.as_str()), ("False", reason::TERMINATION_GRACE_PERIOD_ELAPSED));
}
