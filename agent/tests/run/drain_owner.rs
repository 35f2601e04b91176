//! Drain ownership: agent and controller never evict at the same time. The agent respects the controller's mark on its Node,
//! also after the agent was stopped for some time.

use agent::run::journal::Journal;
use agent::run::lifecycle::{AgentAction, Input, Lifecycle};
use drain::{MARK_ABANDONED, OwnershipStep, READING_HOLDS, Reply};
use hyper::Method;
use serde_json::json;

use super::decisions::{INSTANCE, T0, at, carried_on, node_with, pod, read, settle, short, spot, started};
use crate::api::{Api, until};
use crate::machine::{self, Machine};

const OURS: &str = "aws:///us-west-2a/i-0abc";
const DRAIN_REQUEST: &str = r#"{"id":"termination-u","reason":"Drifted","termination":true}"#;
const MARK: &str = r#"{"id":"termination-u","reason":"silent","at":"2026-01-01T12:00:00Z"}"#;

fn drain_requested(mark: Option<&str>) -> Input {
    node_with(OURS, |node| {
        node["metadata"]["annotations"] = json!({"kerf.sh/drain": DRAIN_REQUEST});
        if let Some(mark) = mark {
            node["metadata"]["annotations"]["kerf.sh/drain-taken-over"] = json!(mark);
        }
        node["spec"]["unschedulable"] = json!(true);
    })
}

fn requests(acts: &[AgentAction]) -> Vec<String> {
    let asks = |act: &String| ["evict", "delete", "read", "remove", "list"].iter().any(|verb| act.starts_with(verb));
    short(acts).into_iter().filter(asks).collect()
}

/// Returns a lifecycle that drains one pod, which a budget blocks.
fn draining() -> Lifecycle {
    let mut lifecycle = started();
    lifecycle.take(drain_requested(None), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(Input::Pods(vec![pod("a")]), T0);
    assert_eq!(requests(&settle(&mut lifecycle, T0)), ["evict a"]);
    refuse(&mut lifecycle, 0);
    lifecycle
}

fn refuse(lifecycle: &mut Lifecycle, second: u64) {
    let blocked = Reply::Blocked { retry_after: None, budget: Some("stays".into()) };
    lifecycle.take(Input::Reply("a".into(), blocked), at(second));
}

#[test]
fn drain_stops_and_reports_when_controller_takes_over() {
    let mut lifecycle = draining();
    lifecycle.take(drain_requested(Some(MARK)), at(1));
    let mut reported = String::new();
    for second in 1..20 {
        for act in lifecycle.step(at(second)) {
            match act {
                AgentAction::PatchNode(_) => lifecycle.take(Input::NodeWritten(true), at(second)),
                AgentAction::PatchStatus(patch) => {
                    reported = patch.to_string();
                    lifecycle.take(Input::StatusWritten(true), at(second));
                }
                AgentAction::ReadNode(OwnershipStep::Read) => lifecycle.take(read(at(second), Some(MARK)), at(second)),
                // The agent read the Node recently, and still must not evict.
                AgentAction::Drain(action) => unreachable!("{action:?} at {second}"),
                _ => {}
            }
        }
    }
    assert!(reported.contains("the controller drains it"), "{reported}");
}

#[test]
fn drain_reads_node_again_when_last_read_is_stale() {
    let mut lifecycle = draining();
    let holds = READING_HOLDS.as_secs();
    for second in 1..holds {
        let acts = requests(&lifecycle.step(at(second)));
        assert!(!acts.contains(&"read".to_owned()), "{second}: {acts:?}");
        refuse(&mut lifecycle, second);
    }
    assert_eq!(requests(&lifecycle.step(at(holds))), ["read"]);
    lifecycle.take(read(at(holds), Some(MARK)), at(holds));
    assert_eq!(requests(&lifecycle.step(at(holds))), Vec::<String>::new());
    assert_eq!(lifecycle.polls_until(at(holds)), at(holds));
}

/// After SIGSTOP or a suspend of the machine, the agent does nothing on the basis of old state.
#[test]
fn drain_reads_node_and_pods_first_after_a_pause() {
    let mut lifecycle = draining();
    settle(&mut lifecycle, at(4));
    assert_eq!(requests(&lifecycle.step(at(70))), ["list"]);
    lifecycle.take(Input::Pods(vec![pod("a")]), at(70));
    assert_eq!(requests(&lifecycle.step(at(70))), ["read"]);
    lifecycle.take(read(at(70), None), at(70));
    assert_eq!(requests(&lifecycle.step(at(70))), ["evict a"]);
}

#[test]
fn drain_reads_node_first_after_a_restart() {
    let lifecycle = draining();
    let written = serde_json::to_string(lifecycle.journal()).unwrap();
    let journal: Journal = serde_json::from_str(&written).unwrap();
    let mut lifecycle = carried_on(journal, at(2));
    lifecycle.take(drain_requested(None), at(2));
    lifecycle.take(Input::Pods(vec![pod("a")]), at(2));
    assert_eq!(requests(&lifecycle.step(at(2))), ["read"]);
}

#[test]
fn drain_is_taken_back_when_controller_mark_is_stale() {
    let mut lifecycle = draining();
    lifecycle.take(drain_requested(Some(MARK)), at(1));
    let mut took = None;
    for second in 1..200 {
        for act in lifecycle.step(at(second)) {
            match act {
                AgentAction::PatchNode(_) => lifecycle.take(Input::NodeWritten(true), at(second)),
                AgentAction::PatchStatus(_) => lifecycle.take(Input::StatusWritten(true), at(second)),
                AgentAction::ReadNode(OwnershipStep::Read) => {
                    lifecycle.take(read(at(second), Some(MARK).filter(|_| took.is_none())), at(second))
                }
                AgentAction::ReadNode(OwnershipStep::RemoveMark(words)) => {
                    assert_eq!((words.as_str(), took), (MARK, None));
                    took = Some(second);
                    lifecycle.take(read(at(second), None), at(second));
                }
                AgentAction::Drain(_) => {
                    let took = took.expect("it asks before it has taken the drain back");
                    assert!((MARK_ABANDONED.as_secs()..MARK_ABANDONED.as_secs() + 20).contains(&took), "{took}");
                    return;
                }
                _ => {}
            }
        }
    }
    unreachable!("this node is not drained");
}

/// A notice of EC2 does not permit the agent to evict beside the controller.
#[test]
fn drain_stays_with_controller_when_notice_arrives() {
    let mut lifecycle = draining();
    lifecycle.take(drain_requested(Some(MARK)), at(1));
    lifecycle.take(spot(at(120)), at(2));
    for second in 2..60 {
        for act in lifecycle.step(at(second)) {
            match act {
                AgentAction::PatchNode(_) => lifecycle.take(Input::NodeWritten(true), at(second)),
                AgentAction::PatchStatus(_) => lifecycle.take(Input::StatusWritten(true), at(second)),
                // The controller renews its mark every 30 s.
                AgentAction::ReadNode(OwnershipStep::Read) => {
                    lifecycle.take(read(at(second), Some(&format!("signed {}", second / 30))), at(second))
                }
                AgentAction::Drain(action) => unreachable!("{action:?} at {second}"),
                AgentAction::ReadNode(OwnershipStep::RemoveMark(words)) => {
                    unreachable!("{words} is taken away at {second}")
                }
                _ => {}
            }
        }
    }
    assert_eq!(lifecycle.journal().drain.as_ref().and_then(|drain| drain.settings().deadline), Some(at(120)));
}

#[test]
fn drain_waits_when_node_has_no_agent_heartbeat() {
    let mut lifecycle = started();
    lifecycle.take(drain_requested(None), T0);
    settle(&mut lifecycle, T0);
    lifecycle.take(Input::Pods(vec![pod("a")]), T0);
    assert_eq!(requests(&lifecycle.step(T0)), ["read"]);
    let Input::Node(node) = drain_requested(None) else { unreachable!("a Node was asked for") };
    lifecycle.take(Input::NodeRead(T0, node), T0);
    assert_eq!(requests(&lifecycle.step(at(1))), Vec::<String>::new());
    assert_eq!(requests(&lifecycle.step(at(2))), ["read"]);
    lifecycle.take(read(at(2), None), at(2));
    assert_eq!(requests(&lifecycle.step(at(2))), ["evict a"]);
}

/// The whole agent: it reads its Node, finds the mark, and evicts no pod until the mark is removed.
#[tokio::test]
async fn agent_evicts_nothing_when_node_has_controller_mark() {
    let api = Api::start().await;
    let mut machine = Machine::boot().await;
    machine.write("etc/kerf/agent.yaml", "drain: {loadBalancerLead: 0s}\n");
    machine.join(&api);
    api.put_pod("a", 30);
    let mut node = machine::node(machine::INSTANCE);
    node["metadata"]["annotations"] = json!({"kerf.sh/drain": DRAIN_REQUEST, "kerf.sh/drain-taken-over": MARK});
    api.put_node(node);
    machine.start();
    let path = format!("/api/v1/nodes/{}", machine::NAME);
    until("the reading", || api.requests(&Method::GET, &path).pop()).await;
    let reported = || {
        let state = api.state();
        let conditions = state.node.as_ref()?["status"]["conditions"].to_string();
        conditions.contains("the controller drains it").then_some(())
    };
    until("its word", reported).await;
    assert!(!api.state().seen.iter().any(|it| it.path.ends_with("/eviction")), "it asked beside the controller");
    let mut node = api.state().node.clone().unwrap();
    node["metadata"]["annotations"].as_object_mut().unwrap().remove("kerf.sh/drain-taken-over");
    api.put_node(node);
    until("the end of the pod", || api.state().pods.is_empty().then_some(())).await;
    assert_eq!(INSTANCE, "i-0abc", "the pure tests' machine");
}
