//! The drain scenarios (`crates/drain/tests/scenarios`), run through the whole agent. The agent performs a termination by Karpenter
//! as the controller does, to the second. Only the agent handles a notice.

use agent::cluster::Node;
use agent::run::journal::Journal;
use agent::run::lifecycle::{AgentAction, Input, Lifecycle};
use api::{DrainRequest, annotation};
use drain::{Action, Millis, PodOnNode, Reply};
use serde_json::{Value, json};

use super::decisions::{INSTANCE, NAME, carried_on, read, spot};
use super::runner::cluster::DrainDriver;
use super::runner::scenario::{Cause, T0};
use super::runner::{self, Scenario, TranscriptMode};

/// Agent whose API server accepts every write at once.
struct Agent {
    lifecycle: Lifecycle,
    node: Value,
    volumes: Vec<String>,
    notice: Option<Millis>,
}

impl Agent {
    fn of(scenario: &Scenario) -> Self {
        let mut node = json!({
            "metadata": {"name": NAME, "uid": "node-uid", "annotations": {}},
            "spec": {"providerID": format!("aws:///us-west-2a/{INSTANCE}")},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        if scenario.cause != Cause::Notice {
            node["metadata"]["annotations"][annotation::DRAIN] = json!(request(scenario).to_string());
        }
        let notice = scenario.deadline.filter(|_| scenario.cause == Cause::Notice);
        Self { lifecycle: carried_on(Journal::new(INSTANCE, None), T0), node, volumes: Vec::new(), notice }
    }

    fn node(&self) -> Input {
        let node: Node = serde_json::from_value(self.node.clone()).unwrap();
        Input::Node(Some(node))
    }

    /// Passes the response to an action to the lifecycle; returns the action if it is a request of the drain.
    fn answer(&mut self, act: AgentAction, now: Millis) -> Option<Action> {
        let answer = match act {
            AgentAction::Drain(action) => return Some(action),
            AgentAction::PatchNode(patch) => {
                if patch["spec"]["unschedulable"] == true {
                    self.node["spec"]["unschedulable"] = json!(true);
                }
                Input::NodeWritten(true)
            }
            AgentAction::PatchStatus(_) => Input::StatusWritten(true),
            AgentAction::CreateEvent(new_event) => Input::EventWritten(new_event.key, true),
            AgentAction::ReadNode(_) => read(now, None),
            AgentAction::ReadAttachment { volume, .. } => {
                Some(Input::Detached(volume.clone())).filter(|_| !self.volumes.contains(&volume))?
            }
            AgentAction::Save | AgentAction::FollowPods | AgentAction::Yield | AgentAction::Complete(_) => return None,
        };
        self.lifecycle.take(answer, now);
        None
    }
}

fn request(scenario: &Scenario) -> DrainRequest {
    let deadline = scenario.deadline.map(|at| jiff::Timestamp::from_millisecond(at.0.try_into().unwrap()).unwrap());
    let termination = scenario.cause == Cause::Termination;
    DrainRequest {
        id: "d-1".into(),
        reason: "scenario".into(),
        deadline,
        daemon_sets: termination,
        termination,
        requested_at: None,
    }
}

impl DrainDriver for Agent {
    fn observe(&mut self, now: Millis, pods: Vec<PodOnNode>, volumes: Vec<String>) {
        self.node["status"]["volumesAttached"] = volumes.iter().map(|name| json!({"name": name})).collect();
        self.volumes = volumes;
        self.lifecycle.take(self.node(), now);
        if let Some(deadline) = self.notice.take() {
            self.lifecycle.take(spot(deadline), now);
        }
        // The agent must begin the drain before it receives pods.
        if self.lifecycle.journal().drain.is_none() {
            self.step(now);
        }
        self.lifecycle.take(Input::Pods(pods), now);
    }

    fn reply(&mut self, now: Millis, uid: &str, reply: &Reply) {
        self.lifecycle.take(Input::Reply(uid.to_owned(), reply.clone()), now);
    }

    fn step(&mut self, now: Millis) -> Vec<Action> {
        for _ in 0..20 {
            let acts = self.lifecycle.step(now);
            if acts.is_empty() {
                break;
            }
            let asked: Vec<Action> = acts.into_iter().filter_map(|act| self.answer(act, now)).collect();
            if !asked.is_empty() {
                return asked;
            }
        }
        Vec::new()
    }

    fn next(&self, now: Millis) -> Option<Millis> {
        self.lifecycle.poll_timeout(now)
    }

    fn restart(&mut self, now: Millis) {
        let written = serde_json::to_string(self.lifecycle.journal()).unwrap();
        self.lifecycle = carried_on(serde_json::from_str(&written).unwrap(), now);
    }

    fn is_done(&self) -> bool {
        self.lifecycle.journal().drain.as_ref().is_some_and(drain::Drain::is_done)
    }
}

#[test]
fn lifecycle_ends_every_drain_scenario_as_the_controller() {
    runner::all(runner::SHARED, TranscriptMode { bless: false, of_another_driver: true }, |_| true, Agent::of);
}
