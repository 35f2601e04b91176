//! Transcripts of node terminations (`drain_scenarios/NAME.txt`): changes of node, NodeClaim and instance by second. Also the
//! transcripts of drains, driven by this controller.

use api::{NodeClaim, annotation, condition};
use drain::{Action, Drain, Millis, PodOnNode, Protection, Reply};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{InstanceState, NodeView, asks, decide, start_drain};
use crate::fixture::{PROVIDER_ID, merge, pod};
use crate::write::writer::{Operation, PodRef, Target};
use runner::cluster::DrainDriver;
use runner::scenario::{Cause, T0};
use runner::{Scenario, TranscriptMode};

#[path = "../../../../crates/drain/tests/scenarios/runner.rs"]
mod runner;

const FOLDER: &str = "controller/src/reconcile/node/drain_scenarios";
/// Conditions in the transcripts.
const REPORTED: [&str; 3] = [condition::DRAINED, condition::VOLUMES_DETACHED, condition::INSTANCE_TERMINATING];

/// Controller without an agent, whose API server and EC2 accept everything at once.
struct Terminating {
    node: Value,
    claim: Value,
    pods: Vec<PodOnNode>,
    /// Attached volumes; `vol-NAME` belongs to the pod of that name.
    volumes: Vec<String>,
    instance: InstanceState,
    drain: Option<Drain>,
    released: bool,
    next: Option<Millis>,
    /// Actions, for transcripts that contain more than requests to pods.
    did: Option<Vec<String>>,
    /// Reported events.
    events: Vec<String>,
}

fn timestamp(at: Millis) -> Timestamp {
    Timestamp::from_millisecond(at.0.try_into().unwrap()).unwrap()
}

fn at_once() -> String {
    timestamp(T0).to_string()
}

impl Terminating {
    fn of_drains(scenario: &Scenario) -> Self {
        let deadline = scenario.deadline.map(|at| timestamp(at).to_string());
        let annotations = deadline.map(|at| json!({annotation::TERMINATION_TIMESTAMP: at}));
        let node = json!({
            "metadata": {
                "name": "node-1", "uid": "node-uid", "resourceVersion": "9", "creationTimestamp": at_once(),
                "deletionTimestamp": at_once(), "finalizers": ["karpenter.sh/termination"],
            },
            "spec": {"providerID": PROVIDER_ID},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        let claim = json!({
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {
                "name": "default-1", "uid": "claim-uid", "resourceVersion": "7", "generation": 1,
                "creationTimestamp": at_once(), "deletionTimestamp": at_once(),
                "finalizers": ["karpenter.sh/termination"], "annotations": annotations,
            },
            "spec": {
                "requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "expireAfter": "Never",
            },
            "status": {"providerID": PROVIDER_ID, "nodeName": "node-1"},
        });
        Self {
            node,
            claim,
            pods: Vec::new(),
            volumes: Vec::new(),
            instance: InstanceState::Alive,
            drain: None,
            released: false,
            next: None,
            did: None,
            events: Vec::new(),
        }
    }

    fn of_ends(scenario: &Scenario) -> Self {
        Self { did: Some(Vec::new()), ..Self::of_drains(scenario) }
    }

    fn view(&self, now: Millis) -> NodeView {
        let uses = |volume: &String| self.pods.iter().any(|pod| *volume == format!("vol-{}", pod.name));
        NodeView {
            node: serde_json::from_value(self.node.clone()).unwrap(),
            claim: Some(serde_json::from_value(self.claim.clone()).unwrap()),
            pods: self.pods.iter().map(|it| pod(&written(it))).collect(),
            surging: Vec::new(),
            attached: self.volumes.iter().filter(|volume| !uses(volume)).cloned().collect(),
            instance: InstanceState::Unknown,
            now: timestamp(now),
        }
    }

    fn reconcile(&mut self, now: Millis) -> Vec<Action> {
        let mut view = self.view(now);
        let mut drain = self.drain.take().unwrap_or_else(|| start_drain(&view));
        if asks(&view, &mut drain) {
            view.instance = self.instance;
        }
        let decision = decide(&view, &mut drain);
        self.drain = Some(drain);
        self.next = decision.after.map(|after| now + after);
        decision.steps.into_iter().for_each(|step| self.carry_out(step));
        if decision.released && !self.released {
            self.record("the node is released".to_owned());
        }
        self.released |= decision.released;
        decision.requests.into_iter().filter_map(|request| action(request.step)).collect()
    }

    fn carry_out(&mut self, step: Operation) {
        match step {
            Operation::Patch(Target::Node(_), body) => {
                if body["spec"]["taints"].is_array() {
                    self.record("the node is tainted".to_owned());
                }
                merge(&mut self.node, &body);
            }
            Operation::Patch(Target::Claim(_), body) => merge(&mut self.claim, &body),
            Operation::PatchStatus(Target::Claim(_), body) => {
                let before = self.conditions();
                merge(&mut self.claim, &json!({"status": body["status"]}));
                let changes: Vec<String> = self.conditions().into_iter().filter(|it| !before.contains(it)).collect();
                changes.into_iter().for_each(|it| self.record(it));
            }
            Operation::Terminate(_) => {
                self.instance = InstanceState::Ending;
                self.record("termination of the instance is requested".to_owned());
            }
            Operation::Note(note) => {
                let event = format!("event {}", note.reason());
                if !self.events.contains(&event) {
                    self.events.push(event.clone());
                    self.record(event);
                }
            }
            other => unreachable!("{other:?}"),
        }
    }

    fn conditions(&self) -> Vec<String> {
        let claim: NodeClaim = serde_json::from_value(self.claim.clone()).unwrap();
        let conditions = claim.status.map(|status| status.conditions).unwrap_or_default();
        let reported = conditions.iter().filter(|it| REPORTED.contains(&it.type_.as_str())).map(|it| {
            let why =
                if it.status == condition::TRUE { String::new() } else { format!(" ({}: {})", it.reason, it.message) };
            format!("{} is {}{why}", it.type_, it.status)
        });
        reported.collect()
    }

    fn record(&mut self, what: String) {
        self.did.iter_mut().for_each(|did| did.push(what.clone()));
    }
}

/// Returns the pod as an object of the API.
fn written(pod: &PodOnNode) -> Value {
    let owner = pod
        .owner_kind
        .as_ref()
        .map(|kind| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "o", "uid": "o", "controller": true}]));
    let bears = json!([{"key": api::taint::DISRUPTED, "operator": "Exists"}]);
    let protected = match pod.do_not_disrupt {
        Protection::None => None,
        Protection::Until(end) => Some(format!("{}s", end.since(T0).as_secs())),
        Protection::Always => Some("true".to_owned()),
    };
    let annotations =
        [(annotation::MIRROR_POD, pod.mirror.then(|| "true".to_owned())), (annotation::DO_NOT_DISRUPT, protected)];
    let annotations: Value =
        annotations.into_iter().filter_map(|(key, text)| Some((key.to_owned(), json!(text?)))).collect();
    let class = if pod.critical { "system-cluster-critical" } else { "" };
    json!({
        "metadata": {
            "name": pod.name, "uid": pod.uid, "ownerReferences": owner, "annotations": annotations,
            "deletionTimestamp": pod.deletion.map(|at| timestamp(at).to_string()),
        },
        "spec": {
            "terminationGracePeriodSeconds": pod.grace_seconds, "priority": pod.priority, "priorityClassName": class,
            "tolerations": if pod.tolerates_disrupted { bears } else { Value::Null },
        },
        "status": {
            "phase": if pod.terminal { "Succeeded" } else { "Running" }, "startTime": timestamp(T0).to_string(),
        },
    })
}

fn action(step: Operation) -> Option<Action> {
    match step {
        Operation::Evict(PodRef { namespace, name, uid }, grace) => {
            Some(Action::Evict { namespace, pod: name, uid, grace })
        }
        Operation::DeletePod(PodRef { namespace, name, uid }, grace) => {
            Some(Action::Delete { namespace, pod: name, uid, grace })
        }
        _ => None,
    }
}

impl DrainDriver for Terminating {
    fn observe(&mut self, _: Millis, pods: Vec<PodOnNode>, volumes: Vec<String>) {
        (self.pods, self.volumes) = (pods, volumes);
    }

    fn reply(&mut self, now: Millis, uid: &str, reply: &Reply) {
        let drain = self.drain.as_mut().expect("it has asked");
        drain.reply(now, uid, reply);
        self.next = Some(now + super::next_moment(&self.view(now), self.drain.as_ref().expect("it has asked")));
    }

    fn step(&mut self, now: Millis) -> Vec<Action> {
        // A write triggers another reconcile at once.
        for _ in 0..20 {
            let before = (self.node.clone(), self.claim.clone(), self.instance);
            let asked = if self.released { Vec::new() } else { self.reconcile(now) };
            if !asked.is_empty() || before == (self.node.clone(), self.claim.clone(), self.instance) {
                return asked;
            }
        }
        unreachable!("the driver never becomes idle")
    }

    fn next(&self, _: Millis) -> Option<Millis> {
        self.next.filter(|_| !self.released)
    }

    fn restart(&mut self, _: Millis) {
        self.drain = None;
    }

    fn is_done(&self) -> bool {
        match self.did {
            Some(_) => self.released,
            None => self.drain.as_ref().is_some_and(Drain::is_done),
        }
    }

    fn apply_fact(&mut self, who: &str, what: &str) {
        match (who, what) {
            ("instance", "gone") => self.instance = InstanceState::Gone,
            ("kubelet", "silent") => self.node["status"]["conditions"][0]["status"] = json!("Unknown"),
            _ => unreachable!("{who} is {what}"),
        }
    }

    fn did(&mut self) -> Vec<String> {
        self.did.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

#[test]
fn decide_matches_the_transcripts_of_terminations() {
    let bless = std::env::var_os("BLESS").is_some();
    runner::all(FOLDER, TranscriptMode { bless, of_another_driver: false }, |_| true, Terminating::of_ends);
}

#[test]
fn decide_matches_the_transcripts_of_drains() {
    let mode = TranscriptMode { bless: false, of_another_driver: true };
    runner::all(runner::SHARED, mode, |scenario| scenario.cause == Cause::Termination, Terminating::of_drains);
}
