//! Times at which the lifecycle acts without an input: each of them is a time of `poll_timeout`.

use std::time::Duration;

use agent::notices::{Reachability, Watcher};
use agent::run::lifecycle::{AgentAction, Input, Lifecycle};
use drain::{Millis, PodOnNode, Protection};
use serde_json::json;

use super::decisions::{T0, at, node_with, pod, settle, short, spot, started};

const OURS: &str = "aws:///us-west-2a/i-0abc";

/// Interval of steps without a timer: longer than each test, or that of the running agent.
const NEVER: Duration = Duration::from_secs(1000);
const TICK: Duration = Duration::from_secs(5);

/// Returns the times at which the lifecycle steps until `end` if every write succeeds, with its actions.
fn steps(lifecycle: &mut Lifecycle, end: Millis, tick: Duration) -> Vec<(Millis, Vec<AgentAction>)> {
    let mut now = T0;
    let mut steps = Vec::new();
    while now < end {
        steps.push((now, settle(lifecycle, now)));
        let next = lifecycle.poll_timeout(now).unwrap_or(end).min(now + tick);
        now = next.max(now + Duration::from_millis(1));
    }
    steps
}

fn time_of(steps: &[(Millis, Vec<AgentAction>)], word: &str) -> Option<Millis> {
    steps.iter().find(|(_, acts)| short(acts).iter().any(|act| act.contains(word))).map(|(at, _)| *at)
}

#[test]
fn poll_timeout_returns_the_end_of_do_not_disrupt() {
    let mut lifecycle = started();
    let request = json!({"kerf.sh/drain": r#"{"id":"d-1","termination":true}"#});
    lifecycle.take(node_with(OURS, |node| node["metadata"]["annotations"] = request), T0);
    let held = PodOnNode { do_not_disrupt: Protection::Until(at(62)), ..pod("held") };
    lifecycle.take(Input::Pods(vec![held.clone()]), T0);
    drop(settle(&mut lifecycle, T0));
    lifecycle.take(Input::Pods(vec![held]), T0);
    let steps = steps(&mut lifecycle, at(120), TICK);
    assert_eq!(time_of(&steps, "evict held"), Some(at(62)));
}

#[test]
fn poll_timeout_returns_the_end_of_the_wait_for_a_cordon() {
    let mut lifecycle = started();
    lifecycle.take(node_with(OURS, |_| {}), T0);
    lifecycle.take(spot(at(120)), T0);
    // The write that cordons the node remains without a response.
    assert!(short(&lifecycle.step(T0)).contains(&"cordon".to_owned()));
    assert_eq!(lifecycle.poll_timeout(T0), Some(at(5)));
}

#[test]
fn poll_timeout_returns_the_next_heartbeat() {
    let mut lifecycle = started();
    lifecycle.take(node_with(OURS, |_| {}), T0);
    let beats: Vec<Millis> = steps(&mut lifecycle, at(100), NEVER)
        .into_iter()
        .filter(|(_, acts)| short(acts).contains(&"heartbeat".to_owned()))
        .map(|(at, _)| at)
        .collect();
    assert_eq!(beats, [T0, at(45), at(90)]);
}

#[test]
fn poll_timeout_returns_the_report_of_a_metadata_failure() {
    let mut lifecycle = started();
    lifecycle.take(node_with(OURS, |_| {}), T0);
    let problem = Some("no response".to_owned());
    lifecycle.take(Input::Reach(Reachability { watcher: Watcher::Spot, failed: 1, problem }), T0);
    assert_eq!(time_of(&steps(&mut lifecycle, at(60), NEVER), "MetadataFails"), Some(at(30)));
}
