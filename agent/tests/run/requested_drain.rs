//! Drains that the annotation of the Node requests: acknowledged, performed, withdrawn, and never those of another machine.

use std::time::Duration;

use agent::cluster::Node;
use agent::run::journal::Journal;
use agent::run::lifecycle::{AgentAction, Input, Lifecycle};
use api::DrainProgress;
use drain::{Action, AwaitedCopy, Millis, PodOnNode, Protection, Reply};
use hyper::Method;
use serde_json::{Value, json};

use super::decisions::{T0, at, carried_on, node_with, pod, settle, short, spot, started};
use crate::api::{Api, until};
use crate::machine::{self, Machine};

const OURS: &str = "aws:///us-west-2a/i-0abc";

fn requested(text: &str) -> Input {
    node_with(OURS, |node| node["metadata"]["annotations"] = json!({"kerf.sh/drain": text}))
}

fn default_request() -> Input {
    requested(r#"{"id":"d-1","reason":"Drifted"}"#)
}

/// Returns status, reason and message of the condition `kerf.sh/Drained` in these actions.
fn drained_condition(acts: &[AgentAction]) -> Option<(String, String, String)> {
    let patch = acts.iter().find_map(|act| match act {
        AgentAction::PatchStatus(patch) => Some(patch),
        _ => None,
    })?;
    let found = patch["status"]["conditions"].as_array()?.iter().find(|it| it["type"] == "kerf.sh/Drained")?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

fn requests(acts: &[AgentAction]) -> Vec<String> {
    short(acts).into_iter().filter(|act| act.starts_with("evict") || act.starts_with("delete")).collect()
}

#[test]
fn drain_annotation_is_acknowledged_in_the_same_step() {
    let mut lifecycle = started();
    lifecycle.take(default_request(), T0);
    let acts = settle(&mut lifecycle, T0);
    let (status, reason, message) = drained_condition(&acts).expect("an acknowledgement");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Draining"));
    assert_eq!(DrainProgress::parse(&message).ids, ["d-1"]);
    let patch = acts.iter().find_map(|act| if let AgentAction::PatchNode(patch) = act { Some(patch) } else { None });
    let patch = patch.expect("a patch");
    assert_eq!(patch["spec"]["unschedulable"], true);
    let labels = &patch["metadata"]["labels"];
    assert_eq!(labels["node.kubernetes.io/exclude-from-external-load-balancers"], "karpenter");
    assert!(patch["metadata"]["annotations"]["kerf.sh/interruption-deadline"].is_null(), "EC2 takes nothing: {patch}");
    assert!(!short(&acts).join(" ").contains("Interruption"), "{acts:?}");
    lifecycle.take(Input::Pods(vec![pod("a")]), at(1));
    assert_eq!(requests(&settle(&mut lifecycle, at(1))), ["evict a"]);
    lifecycle.take(Input::Reply("a".into(), Reply::Accepted), at(1));
    lifecycle.take(Input::Pods(vec![]), at(3));
    let acts: Vec<AgentAction> = (3..9).flat_map(|second| settle(&mut lifecycle, at(second))).collect();
    let (status, reason, message) = acts.chunks(1).filter_map(drained_condition).next_back().expect("the outcome");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Drained"), "{message}");
    assert_eq!(
        DrainProgress::parse(&message),
        DrainProgress { ids: vec!["d-1".into()], evicted: 1, forced: 0, left: 0 }
    );
    assert!(short(&acts).contains(&"event Drained".to_owned()));
}

#[test]
fn drain_deletes_pods_only_when_a_deadline_nears() {
    let with_deadline = json!({"id": "d-1", "deadline": "2026-01-01T12:02:00Z"}).to_string();
    for (text, forced) in [(r#"{"id":"d-1"}"#.to_owned(), None), (with_deadline, Some(90))] {
        let mut lifecycle = started();
        lifecycle.take(requested(&text), T0);
        settle(&mut lifecycle, T0);
        lifecycle.take(Input::Pods(vec![PodOnNode { owner_kind: Some("ReplicaSet".into()), ..pod("a") }]), T0);
        let mut first = None;
        for second in 0..300 {
            for act in settle(&mut lifecycle, at(second)) {
                if let AgentAction::Drain(Action::Evict { uid, .. } | Action::Delete { uid, .. }) = &act {
                    let budget = Some("web".to_owned());
                    lifecycle.take(Input::Reply(uid.clone(), Reply::Blocked { retry_after: None, budget }), at(second));
                }
                if matches!(act, AgentAction::Drain(Action::Delete { .. })) {
                    first.get_or_insert(second);
                }
            }
        }
        assert_eq!(first, forced, "{text}");
    }
}

/// After a notice a pod waits for the copy that the controller has started. The controller's request for the termination ends the
/// wait; the drain of a user knows no copies.
#[test]
fn drain_waits_for_copies_between_notice_and_termination() {
    let owned = |uid| PodOnNode { owner_kind: Some("ReplicaSet".into()), ..pod(uid) };
    let copied = || PodOnNode { copy: AwaitedCopy::Starting(at(300)), ..owned("a") };
    let mut lifecycle = started();
    lifecycle.take(node_with(OURS, |_| {}), T0);
    lifecycle.take(spot(at(120)), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(Input::Pods(vec![copied(), owned("b")]), at(1));
    let acts: Vec<AgentAction> = (1..20).flat_map(|second| settle(&mut lifecycle, at(second))).collect();
    assert_eq!(requests(&acts), ["evict b"]);
    lifecycle.take(requested(r#"{"id":"termination-1","reason":"Interrupted","termination":true}"#), at(20));
    assert_eq!(requests(&settle(&mut lifecycle, at(20))), ["evict a"]);

    let mut lifecycle = started();
    lifecycle.take(default_request(), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(Input::Pods(vec![copied()]), at(1));
    assert_eq!(requests(&settle(&mut lifecycle, at(1))), ["evict a"]);
}

#[test]
fn drain_annotation_is_ignored_when_node_is_another_machine() {
    let mut lifecycle = started();
    let foreign = node_with("aws:///us-west-2a/i-0other", |node| {
        node["metadata"]["annotations"] = json!({"kerf.sh/drain": r#"{"id":"d-1"}"#});
    });
    lifecycle.take(foreign, T0);
    lifecycle.take(Input::Pods(vec![pod("a")]), T0);
    for second in 0..60 {
        assert!(lifecycle.step(at(second)).is_empty());
    }
}

#[test]
fn drain_uncordons_node_when_annotation_is_removed() {
    let mut lifecycle = started();
    lifecycle.take(default_request(), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(Input::Pods(vec![pod("a"), pod("b")]), T0);
    assert_eq!(requests(&settle(&mut lifecycle, T0)), ["evict a", "evict b"]);
    lifecycle.take(Input::Reply("a".into(), Reply::Accepted), at(1));
    lifecycle.take(Input::Reply("b".into(), Reply::Blocked { retry_after: None, budget: None }), at(1));
    let left = |node: &mut Value| {
        node["spec"]["unschedulable"] = json!(true);
        node["metadata"]["labels"] = json!({"node.kubernetes.io/exclude-from-external-load-balancers": "karpenter"});
        let drained_condition = json!({"type": "kerf.sh/Drained", "status": "False", "reason": "Draining"});
        node["status"]["conditions"].as_array_mut().expect("conditions").push(drained_condition);
    };
    lifecycle.take(node_with(OURS, left), at(2));
    let acts: Vec<AgentAction> = (2..40).flat_map(|second| settle(&mut lifecycle, at(second))).collect();
    assert_eq!(requests(&acts), Vec::<String>::new());
    let (status, reason, _) = acts.chunks(1).find_map(drained_condition).expect("a word");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "DrainWithdrawn"));
    let undone =
        acts.iter().any(|act| matches!(act, AgentAction::PatchNode(patch) if patch["spec"]["unschedulable"] == false));
    assert!(undone, "{acts:?}");
}

#[test]
fn drain_continues_from_journal_when_agent_restarts() {
    let mut lifecycle = started();
    lifecycle.take(default_request(), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(Input::Pods(vec![pod("a")]), T0);
    settle(&mut lifecycle, T0);
    let text = serde_json::to_string(lifecycle.journal()).expect("a journal");
    let journal: Journal = serde_json::from_str(&text).expect("a journal");
    let mut lifecycle = carried_on(journal, at(10));
    assert!(lifecycle.summary().contains("waiting"), "{}", lifecycle.summary());
    let cordoned = node_with(OURS, |node| {
        node["metadata"]["annotations"] = json!({"kerf.sh/drain": r#"{"id":"d-1","reason":"Drifted"}"#});
        node["spec"]["unschedulable"] = json!(true);
    });
    lifecycle.take(cordoned, at(10));
    lifecycle.take(Input::Pods(vec![pod("a")]), at(10));
    let acts = settle(&mut lifecycle, at(10));
    assert_eq!(requests(&acts), ["evict a"], "it is unknown whether the first one arrived");
    assert_eq!(drained_condition(&acts).map(|(_, reason, _)| reason).as_deref(), Some("Draining"));
}

#[test]
fn drain_annotation_is_rejected_when_invalid() {
    let mut lifecycle = started();
    lifecycle.take(requested("yes please"), T0);
    let acts = settle(&mut lifecycle, T0);
    let (_, reason, message) = drained_condition(&acts).expect("an answer");
    assert!(reason == "DrainRequestInvalid" && message.contains(r#"{"id":"1""#), "{reason} {message}");
    assert!(!short(&acts).contains(&"cordon".to_owned()));
    assert!(lifecycle.journal().drain.is_none());
}

#[test]
fn drain_takes_deadline_of_notice_and_reports_both_ids() {
    let mut lifecycle = started();
    lifecycle.take(requested(r#"{"id":"d-1","daemonSets":true}"#), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(spot(at(120)), at(1));
    let acts: Vec<AgentAction> = (1..5).flat_map(|second| settle(&mut lifecycle, at(second))).collect();
    let (_, _, message) = acts.chunks(1).filter_map(drained_condition).next_back().expect("an answer");
    let ids = DrainProgress::parse(&message).ids;
    assert!(ids.len() == 2 && ids.contains(&"d-1".to_owned()), "{ids:?}");
    let drain = lifecycle.journal().drain.as_ref().expect("a drain");
    assert_eq!(drain.settings().deadline, Some(at(120)));
    assert_eq!(drain.settings().daemon_sets, drain::DaemonSets::Drain);
}

/// The controller takes over after 30 s without a heartbeat, and must not mistake a busy agent for a dead one.
#[test]
fn agent_writes_heartbeat_every_ten_seconds_when_draining() {
    let mut lifecycle = started();
    lifecycle.take(default_request(), T0);
    lifecycle.take(Input::Pods(vec![PodOnNode { do_not_disrupt: Protection::Always, ..pod("a") }]), T0);
    let mut beats = Vec::new();
    for second in 0..120 {
        let beat = |act: &AgentAction| matches!(act, AgentAction::PatchNode(patch) if patch["metadata"]["annotations"]["kerf.sh/agent-heartbeat"].is_string());
        beats.extend(settle(&mut lifecycle, at(second)).iter().any(beat).then(|| at(second)));
    }
    let gaps = beats.windows(2).map(|pair: &[Millis]| pair[1].since(pair[0]));
    assert!(beats.len() >= 10 && gaps.max() <= Some(Duration::from_secs(12)), "{beats:?}");
}

#[test]
fn drain_waits_for_volumes_to_detach_after_pods_left() {
    let attached = |volumes: Value| {
        node_with(OURS, |node| {
            node["metadata"]["annotations"] = json!({"kerf.sh/drain": r#"{"id":"d-1"}"#});
            node["spec"]["unschedulable"] = json!(true);
            node["status"]["volumesAttached"] = volumes;
        })
    };
    let over = |lifecycle: &mut Lifecycle, from, to| {
        (from..to).flat_map(|second| settle(lifecycle, at(second))).any(|act| short(&[act]) == ["event Drained"])
    };
    let volume = json!([{"name": "kubernetes.io/csi/ebs.csi.aws.com^vol-1", "devicePath": ""}]);
    let mut lifecycle = started();
    lifecycle.take(attached(volume.clone()), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(Input::Pods(vec![]), T0);
    assert!(!over(&mut lifecycle, 0, 30), "an unused volume is attached");
    // A volume that left the Node's list is only being detached. Only the VolumeAttachment shows the end, so the agent requests
    // it repeatedly.
    lifecycle.take(attached(json!([])), at(30));
    let acts: Vec<AgentAction> = (30..40).flat_map(|second| settle(&mut lifecycle, at(second))).collect();
    let attachment_reads = |act: &&String| **act == "attachment kubernetes.io/csi/ebs.csi.aws.com^vol-1";
    assert_eq!(short(&acts).iter().filter(attachment_reads).count(), 5, "{acts:?}");
    assert!(!over(&mut lifecycle, 40, 50), "it is still there");
    let gone = || Input::Detached("kubernetes.io/csi/ebs.csi.aws.com^vol-1".into());
    lifecycle.take(attached(volume.clone()), at(50));
    lifecycle.take(gone(), at(50));
    assert!(!over(&mut lifecycle, 50, 52), "attached again before the answer came");
    lifecycle.take(attached(json!([])), at(52));
    assert!(!over(&mut lifecycle, 52, 54));
    lifecycle.take(gone(), at(54));
    assert!(over(&mut lifecycle, 54, 60));

    let mut lifecycle = started();
    lifecycle.take(attached(volume), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(Input::Pods(vec![PodOnNode { claims: 1, mirror: true, ..pod("stays") }]), T0);
    assert!(over(&mut lifecycle, 0, 10), "the pod that stays keeps its volume");
}

/// The whole agent against a server that behaves like the Node authorizer: a VolumeAttachment that no longer exists is
/// forbidden (403).
#[tokio::test]
async fn drain_ends_when_volume_attachment_is_deleted() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.join(&api);
    let node = |volumes: Value| {
        let mut node = machine::node(machine::INSTANCE);
        node["metadata"]["annotations"] = json!({"kerf.sh/drain": r#"{"id":"d-1"}"#});
        node["status"]["volumesAttached"] = volumes;
        node
    };
    api.put_node(node(json!([{"name": "kubernetes.io/csi/ebs.csi.aws.com^vol-1", "devicePath": ""}])));
    machine.start();
    until("the drain", || condition(&api)).await;
    let message_of = |condition: &Value| condition["message"].as_str().unwrap_or_default().to_owned();
    until("the wait for the volume", || condition(&api).filter(|it| message_of(it).contains("volumes to detach")))
        .await;
    api.state().attached = true;
    let mut off = api.state().node.clone().expect("a node");
    off["status"]["volumesAttached"] = json!([]);
    api.put_node(off);
    let asked = || {
        let state = api.state();
        state.seen.iter().rfind(|it| it.path.contains("/volumeattachments/")).cloned()
    };
    let asked = until("the question for its attachment", asked).await;
    let (_, name) = asked.path.rsplit_once('/').expect("a name");
    assert!(name.starts_with("csi-") && name.len() == 4 + 64 && asked.method == Method::GET, "{name}");
    assert_eq!(condition(&api).expect("a condition")["status"], "False");
    api.state().attached = false;
    until("the end", || condition(&api).filter(|it| it["status"] == "True")).await;
}

fn request_drain(api: &Api, requested: &Value) {
    let mut node = machine::node(machine::INSTANCE);
    node["metadata"]["annotations"] = json!({"kerf.sh/drain": requested.to_string()});
    api.put_node(node);
}

fn condition(api: &Api) -> Option<Value> {
    let state = api.state();
    let conditions = state.node.as_ref()?["status"]["conditions"].as_array()?.clone();
    conditions.into_iter().find(|it| it["type"] == "kerf.sh/Drained")
}

/// The whole agent against a server whose one budget permits one eviction at a time, with the real error message.
#[tokio::test]
async fn drain_evicts_one_by_one_when_budget_allows_one() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.write("etc/kerf/agent.yaml", "drain: {loadBalancerLead: 0s}\n");
    machine.join(&api);
    for index in 0..30 {
        api.put_pod(&format!("{index:02}"), 30);
    }
    api.state().one_each = Some(Duration::from_millis(100));
    request_drain(&api, &json!({"id": "d-1", "reason": "test", "deadline": deadline(120)}));
    machine.start();
    let done = until("the end", || condition(&api).filter(|it| it["status"] == "True")).await;
    let message = done["message"].as_str().expect("a message");
    assert_eq!(
        DrainProgress::parse(message),
        DrainProgress { ids: vec!["d-1".into()], evicted: 30, forced: 0, left: 0 }
    );
    assert!(message.contains("blocked by PodDisruptionBudget default/all"), "{message}");
    let state = api.state();
    let deleted = state.seen.iter().filter(|it| it.method == Method::DELETE).count();
    let asked = state.seen.iter().filter(|it| it.path.ends_with("/eviction")).count();
    assert_eq!((state.pods.len(), deleted), (0, 0));
    // First one request for each pod, then one request for all pods of the budget: about three rounds for each evicted pod.
    assert!(asked < 30 + 30 * 6, "{asked} requests");
}

fn deadline(seconds: i64) -> String {
    let now = jiff::Timestamp::now().as_second();
    jiff::Timestamp::from_second(now + seconds).expect("a moment").to_string()
}

/// The test kills the agent midway; the next agent, as systemd starts it, continues the drain.
#[tokio::test]
async fn agent_continues_drain_when_killed_midway() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.write("etc/kerf/agent.yaml", "drain: {loadBalancerLead: 0s}\n");
    machine.join(&api);
    for index in 0..6 {
        api.put_pod(&format!("{index}"), 30);
    }
    api.state().one_each = Some(Duration::from_millis(300));
    request_drain(&api, &json!({"id": "d-1"}));
    machine.start();
    until("the first pods' end", || (api.state().pods.len() < 5).then_some(())).await;
    machine.kill();
    machine.start();
    until("the end", || condition(&api).filter(|it| it["status"] == "True")).await;
    let state = api.state();
    assert!(state.pods.is_empty() && state.seen.iter().all(|it| it.method != Method::DELETE));
    let uids: Vec<_> = state.seen.iter().filter(|it| it.path.ends_with("/eviction")).map(|it| &it.body).collect();
    assert!(uids.iter().all(|body| body["deleteOptions"]["preconditions"]["uid"].is_string()));
    let node: Node = serde_json::from_value(state.node.clone().expect("a node")).expect("a node");
    assert_eq!(node.metadata.name, machine::NAME);
}
