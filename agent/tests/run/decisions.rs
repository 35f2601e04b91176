//! The lifecycle alone: inputs and moments in, actions out.

use std::time::Duration;

use agent::bootstrap::state::BootstrapState;
use agent::cluster::Node;
use agent::gates::{GateAnswer, Gates, ProbeResult};
use agent::health::HealthSample;
use agent::notices::{NoticeReading, NoticeValue, Reachability, Watcher, parse_maintenance};
use agent::run::journal::{Journal, OwnedMarks};
use agent::run::lifecycle::{AgentAction, Input, Lifecycle};
use drain::{Action, Millis, OwnershipStep, PodOnNode, Reply};
use machine::agent::AgentSettings;
use machine::agent::drain::DrainSettings;
use machine::agent::gates::GateSettings;
use machine::agent::span::Span;
use serde_json::{Value, json};

pub const INSTANCE: &str = "i-0abc";
pub const NAME: &str = "ip-10-0-0-1.us-west-2.compute.internal";
const ALL: OwnedMarks = OwnedMarks { cordoned: true, excluded: true, dated: true, reported: true };
pub const T0: Millis = Millis(1_767_268_800_000);

pub fn at(seconds: u64) -> Millis {
    T0 + Duration::from_secs(seconds)
}

pub fn node_with(provider: &str, change: impl FnOnce(&mut Value)) -> Input {
    let mut node = json!({
        "metadata": {"name": NAME, "uid": "node-uid"},
        "spec": {"providerID": provider},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    change(&mut node);
    let node: Node = serde_json::from_value(node).unwrap();
    Input::Node(Some(node))
}

/// Returns a read of our Node that begins at `now`. The Node has a heartbeat of an agent and the given mark of the controller.
pub fn read(now: Millis, mark: Option<&str>) -> Input {
    let Input::Node(node) = node_with("aws:///us-west-2a/i-0abc", |node| {
        node["metadata"]["annotations"] = json!({"kerf.sh/agent-heartbeat": "2026-01-01T12:00:00Z"});
        if let Some(mark) = mark {
            node["metadata"]["annotations"]["kerf.sh/drain-taken-over"] = json!(mark);
        }
    }) else {
        unreachable!("a Node")
    };
    Input::NodeRead(now, node)
}

pub fn node() -> Input {
    node_with("aws:///us-west-2a/i-0abc", |_| {})
}

fn cni(there: bool) -> Input {
    let gate = Gates::new(&GateSettings::default(), T0).id("CNI").unwrap();
    let answer =
        if there { GateAnswer::Holds } else { GateAnswer::Fails("no CNI configuration in /etc/cni/net.d".into()) };
    Input::Gate(ProbeResult { gate, answer })
}

/// Returns a lifecycle on a machine whose bootstrap has finished.
pub fn carried_on(journal: Journal, now: Millis) -> Lifecycle {
    let mut lifecycle = Lifecycle::new(NAME, journal, now);
    // No load balancer contains this node.
    let drain = DrainSettings { load_balancer_lead: Span::seconds(0), ..DrainSettings::default() };
    lifecycle.configure(&AgentSettings { drain, ..AgentSettings::default() });
    let since = jiff::Timestamp::UNIX_EPOCH;
    lifecycle.take(Input::Bootstrap(Some(BootstrapState::Done { node_name: NAME.into(), since })), now);
    lifecycle
}

pub fn started() -> Lifecycle {
    carried_on(Journal::new(INSTANCE, None), T0)
}

pub fn reading(condition: NoticeValue) -> Input {
    Input::Reading(NoticeReading { value: condition, date: None })
}

pub fn spot(deadline: Millis) -> Input {
    reading(NoticeValue::Spot { action: "terminate".into(), time: deadline })
}

pub fn pod(uid: &str) -> PodOnNode {
    PodOnNode {
        uid: uid.into(),
        namespace: "default".into(),
        name: format!("pod-{uid}"),
        grace_seconds: 20,
        ..PodOnNode::default()
    }
}

/// Runs one step and reports success for every write at once. A required read of the Node finds no other drain owner.
pub fn settle(lifecycle: &mut Lifecycle, now: Millis) -> Vec<AgentAction> {
    let mut acts = lifecycle.step(now);
    for act in &acts {
        let answer = match act {
            AgentAction::PatchNode(_) => Input::NodeWritten(true),
            AgentAction::PatchStatus(_) => Input::StatusWritten(true),
            AgentAction::CreateEvent(new_event) => Input::EventWritten(new_event.key.clone(), true),
            AgentAction::Complete(_) => Input::Completed(true),
            AgentAction::ReadNode(OwnershipStep::Read) => read(now, None),
            AgentAction::Save
            | AgentAction::FollowPods
            | AgentAction::Drain(_)
            | AgentAction::ReadAttachment { .. }
            | AgentAction::Yield => continue,
            AgentAction::ReadNode(OwnershipStep::RemoveMark(_)) => continue,
        };
        lifecycle.take(answer, now);
    }
    let reads = AgentAction::ReadNode(OwnershipStep::Read);
    if acts.contains(&reads) {
        acts.retain(|act| *act != reads);
        acts.extend(settle(lifecycle, now));
    }
    acts
}

pub fn short(acts: &[AgentAction]) -> Vec<String> {
    let one = |act: &AgentAction| match act {
        AgentAction::Save => "save".to_owned(),
        AgentAction::FollowPods => "follow".to_owned(),
        AgentAction::PatchNode(patch) if patch.get("spec").is_some() => "cordon".to_owned(),
        AgentAction::PatchNode(_) => "heartbeat".to_owned(),
        AgentAction::PatchStatus(patch) => {
            let condition = patch["status"]["conditions"].as_array().unwrap().iter();
            let condition: Vec<_> = condition.map(|it| format!("{}={}", it["reason"], it["status"])).collect();
            condition.join(" ").replace('"', "")
        }
        AgentAction::CreateEvent(new_event) => format!("event {}", new_event.reason),
        AgentAction::Drain(Action::Evict { uid, .. }) => format!("evict {uid}"),
        AgentAction::Drain(Action::Delete { uid, .. }) => format!("delete {uid}"),
        AgentAction::Drain(Action::List) => "list".to_owned(),
        AgentAction::ReadNode(OwnershipStep::Read) => "read".to_owned(),
        AgentAction::ReadNode(OwnershipStep::RemoveMark(words)) => format!("remove mark {words}"),
        AgentAction::ReadAttachment { volume, .. } => format!("attachment {volume}"),
        AgentAction::Yield => "yield".to_owned(),
        AgentAction::Complete(hook) => format!("complete {}", hook.hook),
    };
    acts.iter().map(one).collect()
}

#[test]
fn step_writes_nothing_before_the_node_exists() {
    let mut lifecycle = started();
    assert!(lifecycle.step(T0).is_empty());
    lifecycle.take(Input::Node(None), T0);
    assert!(lifecycle.step(T0).is_empty());
    assert!(lifecycle.summary().contains("waiting for kubelet to register"), "{}", lifecycle.summary());
}

#[test]
fn step_writes_ready_condition_when_gates_change() {
    let mut lifecycle = started();
    lifecycle.take(node(), T0);
    assert_eq!(short(&settle(&mut lifecycle, T0)), ["heartbeat", "CNI=False"]);
    assert!(settle(&mut lifecycle, at(1)).is_empty());
    lifecycle.take(cni(true), at(3));
    assert_eq!(short(&settle(&mut lifecycle, at(3))), ["GatesOpen=True"]);
    assert!(settle(&mut lifecycle, at(9)).is_empty());
}

#[test]
fn step_rewrites_condition_when_another_client_edits_it() {
    let mut lifecycle = started();
    lifecycle.take(cni(true), T0);
    lifecycle.take(node(), T0);
    assert_eq!(short(&settle(&mut lifecycle, T0)), ["heartbeat", "GatesOpen=True"]);
    let condition = |message: &'static str| {
        node_with("aws:///us-west-2a/i-0abc", move |node| {
            let condition =
                json!({"type": "kerf.sh/Ready", "status": "True", "reason": "GatesOpen", "message": message});
            node["status"]["conditions"].as_array_mut().unwrap().push(condition);
        })
    };
    lifecycle.take(condition("all gates are open: Bootstrap, Kubelet, CNI, CNI network"), at(20));
    assert!(settle(&mut lifecycle, at(20)).is_empty());
    lifecycle.take(condition("all is lost"), at(21));
    assert_eq!(short(&settle(&mut lifecycle, at(21))), ["GatesOpen=True"]);
}

/// Returns the annotations of the patch of the Node in these actions.
fn annotated(acts: &[AgentAction]) -> Vec<String> {
    let patch = acts.iter().find_map(|act| match act {
        AgentAction::PatchNode(patch) => Some(patch),
        _ => None,
    });
    let annotations = patch.and_then(|patch| patch["metadata"]["annotations"].as_object());
    annotations.into_iter().flatten().map(|(key, _)| key.clone()).collect()
}

#[test]
fn step_sends_timeline_with_heartbeat_but_after_it_once_refused() {
    let (heartbeat, timeline) = ("kerf.sh/agent-heartbeat", "kerf.sh/timeline");
    let mut lifecycle = started();
    lifecycle.take(Input::Timeline(r#"{"start":"2026-01-01T12:00:00.000Z"}"#.into()), T0);
    lifecycle.take(node(), T0);
    let first = lifecycle.step(T0);
    assert_eq!(annotated(&first), [heartbeat, timeline], "the node may be initialized right after its first heartbeat");
    lifecycle.take(Input::NodeWritten(false), T0);
    assert_eq!(annotated(&settle(&mut lifecycle, at(2))), [heartbeat]);
    assert_eq!(annotated(&settle(&mut lifecycle, at(4))), [timeline]);
}

#[test]
fn step_writes_heartbeat_each_minute_and_limits_status_writes() {
    let mut lifecycle = started();
    lifecycle.take(node(), T0);
    let (mut beats, mut writes) = (vec![T0], Vec::new());
    for second in 0..600 {
        // The CNI appears and disappears every second, and the server sometimes refuses a write.
        lifecycle.take(cni(second % 2 == 0), at(second));
        for act in lifecycle.step(at(second)) {
            let done = second % 7 != 0;
            match act {
                AgentAction::PatchNode(_) => {
                    beats.extend(done.then_some(at(second)));
                    lifecycle.take(Input::NodeWritten(done), at(second));
                }
                AgentAction::PatchStatus(_) => {
                    writes.push(at(second));
                    lifecycle.take(Input::StatusWritten(done), at(second));
                }
                other => panic_with(&other),
            }
        }
    }
    let gap = |pair: &[Millis]| pair[1].since(pair[0]);
    assert!(beats.windows(2).all(|pair| gap(pair) <= Duration::from_secs(60)), "{beats:?}");
    assert!(beats.len() < 16, "{}", beats.len());
    assert!(writes.len() > 50, "{}", writes.len());
    assert!(writes.windows(2).all(|pair| gap(pair) >= Duration::from_secs(2)), "{writes:?}");
}

#[track_caller]
fn panic_with(act: &AgentAction) {
    assert!(matches!(act, AgentAction::PatchNode(_)), "unexpected {act:?}");
}

#[test]
fn notice_is_saved_then_cordons_then_drains() {
    let mut lifecycle = started();
    lifecycle.take(node(), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(spot(at(120)), at(1));
    let acts = lifecycle.step(at(1));
    assert_eq!(
        short(&acts),
        ["save", "cordon", "CNI=False SpotInterruption=True Draining=False", "follow", "event SpotInterruption"]
    );
    let expected = json!({
        "spec": {"unschedulable": true},
        "metadata": {
            "labels": {"node.kubernetes.io/exclude-from-external-load-balancers": "karpenter"},
            "annotations": {"kerf.sh/interruption-deadline": "2026-01-01T12:02:00Z"},
        },
    });
    assert_eq!(acts[1], AgentAction::PatchNode(expected));
    assert!(lifecycle.step(at(1)).is_empty(), "nothing more before the cordon stands");
    lifecycle.take(Input::NodeWritten(true), at(1));
    assert!(lifecycle.step(at(1)).is_empty(), "that the cordon is ours was written before it was sent");
    lifecycle.take(Input::Pods(vec![pod("a")]), at(1));
    assert_eq!(short(&lifecycle.step(at(1))), ["read"], "another owner may be draining");
    lifecycle.take(read(at(1), None), at(1));
    assert_eq!(short(&lifecycle.step(at(1))), ["save", "evict a"]);
}

#[test]
fn drain_starts_after_5_s_when_cordon_fails() {
    let mut lifecycle = started();
    lifecycle.take(node(), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(spot(at(120)), T0);
    assert!(short(&lifecycle.step(T0)).contains(&"cordon".to_owned()));
    lifecycle.take(Input::NodeWritten(false), T0);
    lifecycle.take(Input::Pods(vec![pod("a")]), T0);
    assert!(!short(&settle(&mut lifecycle, at(4))).contains(&"evict a".to_owned()));
    assert!(short(&settle(&mut lifecycle, at(5))).contains(&"evict a".to_owned()));
}

#[test]
fn notice_changes_drain_only_when_deadline_is_earlier() {
    let mut lifecycle = started();
    lifecycle.take(node(), T0);
    lifecycle.take(spot(at(120)), T0);
    settle(&mut lifecycle, T0);
    settle(&mut lifecycle, at(3));
    let before = lifecycle.journal().clone();
    lifecycle.take(spot(at(120)), at(4));
    lifecycle.take(spot(at(130)), at(4));
    assert_eq!(lifecycle.journal(), &before);
    lifecycle.take(spot(at(90)), at(5));
    let acts = short(&settle(&mut lifecycle, at(15)));
    assert_eq!(acts[..2], ["save", "cordon"], "the annotation names the new deadline");
    let drain = lifecycle.journal().drain.as_ref().unwrap();
    assert_eq!(drain.settings().deadline, Some(at(90)));
    assert!(!acts.contains(&"event SpotInterruption".to_owned()), "{acts:?}");
}

#[test]
fn rebalance_recommendation_emits_event_without_drain() {
    let mut lifecycle = started();
    lifecycle.take(node(), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(reading(NoticeValue::Rebalance { time: T0 }), at(5));
    let acts = short(&settle(&mut lifecycle, at(5)));
    assert_eq!(acts, ["save", "CNI=False RebalanceRecommendation=True", "event RebalanceRecommendation"]);
    assert_eq!(short(&settle(&mut lifecycle, at(6))), ["save"], "the event is told");
    assert!(lifecycle.journal().drain.is_none());
    lifecycle.take(spot(at(120)), at(7));
    let acts = short(&settle(&mut lifecycle, at(7)));
    assert!(acts.contains(&"CNI=False SpotInterruption=True Draining=False".to_owned()), "{acts:?}");
}

#[test]
fn step_reports_the_reason_of_each_notice() {
    let approved = || {
        node_with("aws:///us-west-2a/i-0abc", |node| {
            node["metadata"]["annotations"] =
                json!({"kerf.sh/rebalance": "replace", "kerf.sh/replacement-approved": "rebalance-1767268800000"});
        })
    };
    let reboot =
        r#"[{"Code": "system-reboot", "EventId": "e1", "NotBefore": "1 Jan 2026 12:10:00 GMT", "State": "active"}]"#;
    let stop = reboot.replace("system-reboot", "instance-stop");
    for (value, reason) in [
        (NoticeValue::Spot { action: "terminate".into(), time: at(120) }, "SpotInterruption"),
        (NoticeValue::Shutdown(Some(Duration::from_secs(31))), "InstanceShutdown"),
        (NoticeValue::Reboot(Duration::from_secs(31)), "InstanceReboot"),
        (NoticeValue::Scaling("Terminated".into()), "ASGLifecycle"),
        (NoticeValue::Maintenance(parse_maintenance(reboot.as_bytes()).unwrap()), "InstanceReboot"),
        (NoticeValue::Maintenance(parse_maintenance(stop.as_bytes()).unwrap()), "ScheduledEvent"),
        (NoticeValue::Rebalance { time: T0 }, "RebalanceReplacement"),
    ] {
        let mut lifecycle = started();
        lifecycle.take(approved(), T0);
        lifecycle.take(reading(value), at(1));
        let acts = short(&settle(&mut lifecycle, at(1)));
        assert!(acts.contains(&format!("CNI=False {reason}=True Draining=False")), "{reason}: {acts:?}");
        assert!(acts.contains(&"cordon".to_owned()), "{reason}: {acts:?}");
    }
}

/// Tests maintenance at 14:00 with the usual lead of 30 minutes, in the forms in which EC2 lists it.
#[test]
fn step_drains_for_active_maintenance_only_when_its_lead_begins() {
    for (fields, counts) in [
        (r#""State": "active", "Description": "scheduled reboot""#, true),
        (r#""State": "active", "Description": "[Canceled] scheduled reboot""#, false),
        (r#""State": "active", "Description": "[Completed] scheduled reboot""#, false),
        (r#""State": "canceled""#, false),
        (r#""State": "completed""#, false),
        (r#""State": "closed""#, false),
    ] {
        let body = format!(
            r#"[{{"Code": "system-reboot", "EventId": "e1", "NotBefore": "1 Jan 2026 14:00:00 GMT", {fields}}}]"#
        );
        let mut lifecycle = started();
        lifecycle.take(node(), T0);
        lifecycle.take(reading(NoticeValue::Maintenance(parse_maintenance(body.as_bytes()).unwrap())), T0);
        let acts = [settle(&mut lifecycle, T0), settle(&mut lifecycle, at(5399))].concat();
        assert_eq!(short(&acts).contains(&"event ScheduledEvent".to_owned()), counts, "{fields}: {acts:?}");
        assert!(!short(&acts).contains(&"cordon".to_owned()), "{fields}: {acts:?}");
        let acts = short(&settle(&mut lifecycle, at(5400)));
        assert_eq!(acts.contains(&"cordon".to_owned()), counts, "{fields}: {acts:?}");
    }
}

#[test]
fn step_writes_nothing_when_node_is_another_machine() {
    for provider in ["aws:///us-west-2a/i-0other", "", "aws:///us-west-2a/", "i-0abcd"] {
        let mut lifecycle = started();
        lifecycle.take(node_with(provider, |_| {}), T0);
        lifecycle.take(spot(at(120)), T0);
        lifecycle.take(Input::Pods(vec![pod("a")]), T0);
        assert_eq!(short(&lifecycle.step(T0)), ["save"], "{provider}");
        assert!(lifecycle.step(at(60)).is_empty(), "{provider}");
        assert!(lifecycle.summary().contains("another instance"), "{}", lifecycle.summary());
    }
}

#[test]
fn drain_emits_one_event_with_pods_left() {
    let mut lifecycle = started();
    lifecycle.take(node(), T0);
    lifecycle.take(spot(at(60)), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(Input::Pods(vec![pod("a"), pod("b")]), T0);
    let acts = short(&settle(&mut lifecycle, at(1)));
    assert_eq!(acts, ["save", "save", "evict a", "evict b"], "once for the cordon, once for the pods");
    lifecycle.take(Input::Reply("b".into(), Reply::Unreachable), at(1));
    lifecycle.take(Input::Reply("a".into(), Reply::Accepted), at(1));
    lifecycle.take(Input::Pods(vec![pod("b")]), at(2));
    let mut reported = Vec::new();
    for second in 2..80 {
        for act in settle(&mut lifecycle, at(second)) {
            match act {
                AgentAction::Drain(Action::Evict { uid, .. } | Action::Delete { uid, .. }) => {
                    lifecycle.take(Input::Reply(uid, Reply::Unreachable), at(second));
                }
                AgentAction::CreateEvent(new_event) => reported.push(new_event),
                _ => {}
            }
        }
    }
    let reported: Vec<_> = reported.iter().map(|it| (it.reason, it.message.as_str())).collect();
    assert_eq!(reported.len(), 1, "{reported:?}");
    assert_eq!(reported[0].0, "FailedDraining");
    assert!(reported[0].1.contains("1 evicted") && reported[0].1.contains("default/pod-b"), "{reported:?}");
}

#[test]
fn lifecycle_resumes_drain_from_journal_when_restarted() {
    let mut lifecycle = started();
    lifecycle.take(node(), T0);
    lifecycle.take(spot(at(120)), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(Input::Pods(vec![pod("a"), pod("b")]), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(Input::Reply("a".into(), Reply::Accepted), T0);
    settle(&mut lifecycle, at(2));
    let text = serde_json::to_string(lifecycle.journal()).unwrap();

    let journal: Journal = serde_json::from_str(&text).unwrap();
    let mut lifecycle = carried_on(journal, at(10));
    let cordoned = node_with("aws:///us-west-2a/i-0abc", |node| {
        node["spec"]["unschedulable"] = json!(true);
    });
    lifecycle.take(cordoned, at(10));
    lifecycle.take(spot(at(120)), at(10));
    let acts = short(&settle(&mut lifecycle, at(10)));
    assert!(acts.contains(&"follow".to_owned()), "{acts:?}");
    assert!(!acts.iter().any(|act| act.starts_with("event") || act.starts_with("evict")), "{acts:?}");
    let leaving = PodOnNode { deletion: Some(at(20)), ..pod("a") };
    lifecycle.take(Input::Pods(vec![leaving, pod("b")]), at(11));
    let acts = short(&settle(&mut lifecycle, at(11)));
    assert!(acts.contains(&"evict b".to_owned()) && !acts.contains(&"evict a".to_owned()), "{acts:?}");
}

#[test]
fn bootstrap_failure_emits_event_and_condition() {
    let mut lifecycle = started();
    let failed =
        BootstrapState::Failed { reason: "user data holds no NodeConfig".into(), since: jiff::Timestamp::UNIX_EPOCH };
    lifecycle.take(Input::Bootstrap(Some(failed)), T0);
    assert!(lifecycle.step(T0).is_empty(), "the API server has not answered yet");
    lifecycle.take(Input::Node(None), T0);
    let acts = settle(&mut lifecycle, T0);
    assert_eq!(short(&acts), ["event BootstrapFailed"]);
    let Some(AgentAction::CreateEvent(new_event)) = acts.first() else { unreachable!("{acts:?}") };
    let event = new_event.event(NAME, None, T0);
    assert_eq!(event["involvedObject"]["name"], NAME);
    assert_eq!(event["metadata"]["namespace"], "default");
    assert!(event["message"].as_str().unwrap().contains("user data holds no NodeConfig"));
    lifecycle.take(node(), at(30));
    let acts = settle(&mut lifecycle, at(30));
    let condition = short(&acts);
    assert_eq!(condition, ["save", "heartbeat", "Bootstrap,CNI=False"]);
    let AgentAction::PatchStatus(patch) = &acts[2] else { unreachable!("{acts:?}") };
    let message = patch["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.contains("user data holds no NodeConfig"), "{message}");
}

/// Returns our Node in the state that an interruption left.
fn interrupted_node() -> Input {
    node_with("aws:///us-west-2a/i-0abc", |node| {
        node["spec"]["unschedulable"] = json!(true);
        node["metadata"]["labels"] = json!({"node.kubernetes.io/exclude-from-external-load-balancers": "karpenter"});
        node["metadata"]["annotations"] = json!({"kerf.sh/interruption-deadline": "2026-01-01T00:00:00Z"});
        let condition = json!({"type": "kerf.sh/Interrupted", "status": "True", "reason": "SpotInterruption"});
        node["status"]["conditions"].as_array_mut().unwrap().push(condition);
    })
}

#[test]
fn step_removes_marks_of_an_earlier_boot_once() {
    for cordoned in [true, false] {
        let mut journal = Journal::new(INSTANCE, Some("two".into()));
        journal.leftover = Some(OwnedMarks { cordoned, excluded: cordoned, dated: true, reported: true });
        let mut lifecycle = carried_on(journal, T0);
        lifecycle.take(interrupted_node(), T0);
        let mut acts = settle(&mut lifecycle, T0);
        assert_eq!(short(&acts[1..]), ["CNI=False InterruptionOver=False"]);
        let AgentAction::PatchNode(patch) = &mut acts[0] else { panic!("{acts:?}") };
        let heartbeat = patch["metadata"]["annotations"].as_object_mut().unwrap().remove("kerf.sh/agent-heartbeat");
        assert!(heartbeat.is_some(), "{patch}");
        let annotations = json!({"kerf.sh/interruption-deadline": null});
        let labels = json!({"node.kubernetes.io/exclude-from-external-load-balancers": null});
        let undo = if cordoned {
            json!({"spec": {"unschedulable": false}, "metadata": {"annotations": annotations, "labels": labels}})
        } else {
            json!({"metadata": {"annotations": annotations}})
        };
        assert_eq!(*patch, undo, "a cordon of another owner is not ours to lift");
        lifecycle.take(node(), at(4));
        assert!(lifecycle.journal().leftover.is_some(), "the Node as seen may be older than what was written");
        assert_eq!(short(&settle(&mut lifecycle, at(14)))[..1], ["save"]);
        assert_eq!(lifecycle.journal().leftover, None);
        lifecycle.take(interrupted_node(), at(20));
        let acts = settle(&mut lifecycle, at(20));
        assert!(
            !acts.iter().any(|act| matches!(act, AgentAction::PatchNode(_))),
            "later it belongs to another owner: {acts:?}"
        );
    }
}

#[test]
fn notice_keeps_marks_of_an_earlier_boot() {
    let mut journal = Journal::new(INSTANCE, Some("two".into()));
    journal.leftover = Some(ALL);
    let mut lifecycle = carried_on(journal, T0);
    lifecycle.take(spot(at(120)), T0);
    lifecycle.take(interrupted_node(), T0);
    let acts = short(&settle(&mut lifecycle, T0));
    assert!(acts.contains(&"CNI=False SpotInterruption=True Draining=False".to_owned()), "{acts:?}");
    assert_eq!(lifecycle.journal().ours, ALL);
    settle(&mut lifecycle, at(11));
    assert_eq!(lifecycle.journal().leftover, None);
}

fn shutdown(seconds: u64) -> Input {
    reading(NoticeValue::Shutdown(Some(Duration::from_secs(seconds))))
}

#[test]
fn shutdown_waits_for_drain_and_deletes_no_pod() {
    let mut lifecycle = started();
    lifecycle.take(node(), T0);
    lifecycle.take(shutdown(31), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(Input::Pods(vec![pod("a"), pod("b")]), T0);
    assert!(short(&settle(&mut lifecycle, at(1))).contains(&"evict a".to_owned()));
    let mut yielded = Vec::new();
    for second in 1..60 {
        for act in settle(&mut lifecycle, at(second)) {
            match act {
                AgentAction::Drain(Action::Evict { uid, .. }) => {
                    lifecycle.take(Input::Reply(uid, Reply::Unreachable), at(second));
                }
                AgentAction::Drain(Action::Delete { uid, .. }) => {
                    panic_with(&AgentAction::CreateEvent(report_of(&uid)))
                }
                AgentAction::Yield => yielded.push(second),
                _ => {}
            }
        }
    }
    assert_eq!(yielded, [30], "a second before logind's patience ends, and once");
    let mut lifecycle = started();
    lifecycle.take(node(), T0);
    lifecycle.take(shutdown(31), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(Input::Pods(Vec::new()), at(1));
    assert!(short(&settle(&mut lifecycle, at(1))).contains(&"yield".to_owned()), "an empty node waits for nothing");
}

fn report_of(uid: &str) -> agent::cluster::NodeEvent {
    agent::cluster::NodeEvent { key: String::new(), warning: true, reason: "deleted", message: uid.to_owned() }
}

#[test]
fn shutdown_continues_at_once_when_node_is_absent() {
    for seen in [Input::Node(None), node_with("aws:///us-west-2a/i-0other", |_| {})] {
        let mut lifecycle = started();
        lifecycle.take(seen, T0);
        lifecycle.take(shutdown(31), T0);
        assert_eq!(short(&lifecycle.step(T0)).iter().filter(|act| *act == "yield").count(), 1);
        assert!(!short(&lifecycle.step(at(1))).contains(&"yield".to_owned()));
    }
}

#[test]
fn complete_hook_is_retried_after_drain_until_it_succeeds() {
    let hook = machine::agent::notices::LifecycleHook { hook: "drain".into(), group: None };
    let mut settings = AgentSettings::default();
    settings.notices.auto_scaling.complete = Some(hook);
    let mut lifecycle = started();
    lifecycle.configure(&settings);
    lifecycle.take(node(), T0);
    lifecycle.take(reading(NoticeValue::Scaling("Terminated".into())), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(Input::Pods(vec![pod("a")]), at(1));
    let acts = short(&settle(&mut lifecycle, at(1)));
    assert!(!acts.contains(&"complete drain".to_owned()), "{acts:?}");
    lifecycle.take(Input::Pods(Vec::new()), at(2));
    assert!(short(&lifecycle.step(at(2))).contains(&"complete drain".to_owned()));
    lifecycle.take(Input::Completed(false), at(4));
    assert!(!short(&lifecycle.step(at(5))).contains(&"complete drain".to_owned()), "not at once");
    assert!(short(&lifecycle.step(at(6))).contains(&"complete drain".to_owned()));
    lifecycle.take(Input::Completed(true), at(7));
    assert_eq!(lifecycle.journal().completed.as_deref(), Some("scaling"));
    assert!(!short(&lifecycle.step(at(60))).contains(&"complete drain".to_owned()));
}

#[test]
fn metadata_condition_is_false_after_30_s_of_failures() {
    let reach = |problem: Option<&str>| {
        let failed = u32::from(problem.is_some());
        Input::Reach(Reachability { watcher: Watcher::Spot, failed, problem: problem.map(str::to_owned) })
    };
    let metadata_condition = |acts: &[AgentAction]| short(acts).into_iter().find(|act| act.contains("Metadata"));
    let mut lifecycle = started();
    lifecycle.take(node(), T0);
    for second in 0..30 {
        lifecycle.take(reach(Some("it hangs")), at(second));
        assert_eq!(metadata_condition(&settle(&mut lifecycle, at(second))), None, "{second}");
    }
    assert_eq!(lifecycle.unanswered(), 30);
    assert_eq!(metadata_condition(&settle(&mut lifecycle, at(30))).as_deref(), Some("CNI=False MetadataFails=False"));
    let failing = node_with("aws:///us-west-2a/i-0abc", |node| {
        let condition = json!({"type": "kerf.sh/MetadataReachable", "status": "False", "reason": "MetadataFails"});
        node["status"]["conditions"].as_array_mut().unwrap().push(condition);
    });
    lifecycle.take(failing, at(33));
    lifecycle.take(reach(None), at(34));
    assert_eq!(metadata_condition(&settle(&mut lifecycle, at(34))).as_deref(), Some("CNI=False MetadataAnswers=True"));
}

#[test]
fn health_reports_imds_unreachable_after_one_minute() {
    let reach = |watcher, problem: Option<&str>| {
        Input::Reach(Reachability {
            watcher,
            failed: u32::from(problem.is_some()),
            problem: problem.map(str::to_owned),
        })
    };
    let mut lifecycle = started();
    lifecycle.take(Input::Health(HealthSample::default()), T0);
    let mut ill = Vec::new();
    for second in 0..180 {
        let problem = (second < 90).then_some("it hangs");
        lifecycle.take(reach(Watcher::Rest, problem), at(second));
        lifecycle.take(reach(Watcher::Spot, None), at(second));
        ill.extend(lifecycle.health(at(second)).map(|condition| (second, condition)));
    }
    let seconds: Vec<u64> = ill.iter().map(|(second, _)| *second).collect();
    assert_eq!(seconds, (60..150).collect::<Vec<u64>>());
    assert!(
        ill.iter()
            .all(|(_, condition)| condition.contains("IMDSUnreachable since ") && condition.ends_with(": it hangs")),
        "{ill:?}"
    );
}
