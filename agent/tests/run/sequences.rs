//! Invariants over any sequence of notices, kills, lost responses, clock steps and edits by other clients. A small model keeps
//! the Node as the API server would. At any step the test drops the lifecycle and reads it again from the bytes of its journal.

use std::collections::BTreeSet;
use std::time::Duration;

use agent::bootstrap::state::BootstrapState;
use agent::host::clock::WallOffset;
use agent::notices::{ImdsNoticeKind, Maintenance, MaintenanceState, NoticeReading, NoticeValue};
use agent::run::journal::Journal;
use agent::run::lifecycle::{AgentAction, Input, Lifecycle};
use drain::Millis;
use json_patch::merge;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use serde_json::{Value, json};

const T0: Millis = Millis(1_767_268_800_000);
const NAME: &str = "node";
const INSTANCE: &str = "i-1";
const LABEL: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

#[derive(Clone, Debug)]
enum Step {
    Read(NoticeValue),
    /// A passage of time, in seconds.
    Pass(u64),
    /// `kill -9`, and a start from the journal on disk.
    Kill,
    /// A change of the wall clock by an operator, in seconds.
    Clock(i64),
    /// A cordon or uncordon of the node by another client.
    Cordon(bool),
    /// An exclusion of the node from load balancers by another client, or its end.
    Exclude(bool),
    /// A loss of the next write: before it is done, or only of its response.
    Lose {
        done: bool,
    },
}

struct Model {
    lifecycle: Lifecycle,
    disk: Vec<u8>,
    node: Value,
    now: Millis,
    /// Offset of the wall clock, in milliseconds.
    wall: i64,
    cordoned_by_others: bool,
    excluded_by_others: bool,
    lose: Option<bool>,
    recorded_events: BTreeSet<String>,
    /// Deadline of the spot notice, since the lifecycle acted on it.
    spot: Option<Millis>,
}

impl Model {
    fn new() -> Self {
        let node = json!({
            "metadata": {"name": NAME, "uid": "u", "labels": {}, "annotations": {}},
            "spec": {"providerID": format!("aws:///a/{INSTANCE}")},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        let journal = Journal::new(INSTANCE, None);
        let disk = serde_json::to_vec(&journal).unwrap();
        let lifecycle = start(journal, T0);
        Self {
            lifecycle,
            disk,
            node,
            now: T0,
            wall: 0,
            cordoned_by_others: false,
            excluded_by_others: false,
            lose: None,
            recorded_events: BTreeSet::new(),
            spot: None,
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Read(value) => {
                let reading = NoticeReading { value: value.clone(), date: None };
                self.lifecycle.take(Input::Reading(reading), self.now);
            }
            Step::Pass(seconds) => self.now = self.now + Duration::from_secs(*seconds),
            Step::Kill => {
                let journal = Journal::parse(&self.disk).unwrap();
                self.lifecycle = start(journal, self.now);
            }
            Step::Clock(seconds) => self.wall += seconds * 1000,
            Step::Cordon(on) => self.cordon(*on),
            Step::Exclude(on) => self.exclude(*on),
            Step::Lose { done } => self.lose = Some(*done),
        }
        self.reconcile();
    }

    /// Cordons or uncordons the node for another client, unless a write of the agent owns the cordon. The order of two
    /// simultaneous writes is undefined.
    fn cordon(&mut self, on: bool) {
        let cordoned = self.node["spec"]["unschedulable"] == true;
        if self.lifecycle.journal().ours.cordoned || self.left().cordoned || cordoned == on {
            return;
        }
        self.node["spec"]["unschedulable"] = json!(on);
        self.cordoned_by_others = on;
    }

    fn exclude(&mut self, on: bool) {
        if self.lifecycle.journal().ours.excluded || self.left().excluded {
            return;
        }
        let labels = self.node["metadata"]["labels"].as_object_mut().unwrap();
        if on {
            labels.insert(LABEL.into(), json!("karpenter"))
        } else {
            labels.remove(LABEL)
        };
        self.excluded_by_others = on;
    }

    fn left(&self) -> agent::run::journal::OwnedMarks {
        self.lifecycle.journal().leftover.unwrap_or_default()
    }

    /// Passes the Node to the lifecycle, runs one step, and performs its actions.
    fn reconcile(&mut self) {
        self.lifecycle.take(Input::Wall(WallOffset(self.wall)), self.now);
        self.lifecycle.take(Input::Node(Some(serde_json::from_value(self.node.clone()).unwrap())), self.now);
        self.lifecycle.take(Input::Pods(Vec::new()), self.now);
        let acts = self.lifecycle.step(self.now);
        assert!(self.lifecycle.poll_timeout(self.now).is_none_or(|at| at >= self.now));
        for act in acts {
            self.carry_out(act);
        }
        self.check_invariants();
    }

    fn carry_out(&mut self, act: AgentAction) {
        let lost = if matches!(act, AgentAction::Save | AgentAction::FollowPods | AgentAction::Drain(_)) {
            None
        } else {
            self.lose.take()
        };
        let (arrives, answered) = (lost != Some(false), lost.is_none());
        let answer = match act {
            AgentAction::Save => {
                self.disk = serde_json::to_vec(self.lifecycle.journal()).unwrap();
                return;
            }
            AgentAction::PatchNode(patch) => {
                if arrives {
                    self.check_disk(&patch);
                    merge(&mut self.node, &patch);
                }
                Input::NodeWritten(answered)
            }
            AgentAction::PatchStatus(patch) => {
                if arrives {
                    self.conditions(&patch);
                }
                Input::StatusWritten(answered)
            }
            AgentAction::CreateEvent(event) => {
                // The API server rejects an event that exists: the agent sends an event again when its response was lost.
                assert!(
                    !arrives
                        || self.recorded_events.insert(event.key.clone())
                        || !answered
                        || self.lost_before(&event.key)
                );
                Input::EventWritten(event.key, answered)
            }
            _ => return,
        };
        self.lifecycle.take(answer, self.now);
    }

    /// Reports whether the event was sent, but the journal has no record of it.
    fn lost_before(&self, key: &str) -> bool {
        !self.lifecycle.journal().published_events.contains(key)
    }

    /// Asserts that the journal on disk records a mark of the agent before the mark is sent.
    fn check_disk(&self, patch: &Value) {
        let disk = Journal::parse(&self.disk).unwrap();
        assert!(patch["spec"]["unschedulable"] != true || disk.ours.cordoned, "{patch}");
        assert!(!patch["metadata"]["labels"][LABEL].is_string() || disk.ours.excluded, "{patch}");
    }

    fn conditions(&mut self, patch: &Value) {
        let conditions = self.node["status"]["conditions"].as_array_mut().unwrap();
        for value in patch["status"]["conditions"].as_array().unwrap() {
            conditions.retain(|it| it["type"] != value["type"]);
            conditions.push(value.clone());
        }
    }

    fn check_invariants(&mut self) {
        if self.cordoned_by_others {
            assert_eq!(self.node["spec"]["unschedulable"], true, "the cordon of another owner was lifted");
        }
        if self.excluded_by_others {
            assert_eq!(self.node["metadata"]["labels"][LABEL], "karpenter", "the label of another owner was taken");
        }
        let order = self.lifecycle.journal().order.clone();
        let mut active = self.lifecycle.journal().notices.active();
        let spot = active.find(|entry| matches!(entry.notice.kind, ImdsNoticeKind::Spot { .. })).map(|entry| entry.at);
        assert!(self.spot.is_none_or(|before| spot.is_some_and(|now| now <= before)), "a spot notice is final");
        if let Some(deadline) = spot {
            let order = order.as_ref().expect("it is acted on");
            assert_eq!(order.reason, "SpotInterruption", "nothing is more urgent");
            assert!(order.forced.is_some_and(|forced| forced <= deadline) && order.deadline <= order.forced);
        }
        self.spot = spot;
        let drain = self.lifecycle.journal().drain.as_ref();
        assert_eq!(drain.map(|drain| drain.settings().deadline), order.map(|order| order.forced));
    }

    /// Cancels every notice and lets time pass: no mark of the agent may remain.
    fn settle(&mut self) {
        self.lose = None;
        for value in [
            NoticeValue::Shutdown(None),
            NoticeValue::Scaling("InService".into()),
            NoticeValue::Maintenance(Vec::new()),
        ] {
            self.apply(&Step::Read(value));
        }
        self.apply(&Step::Pass(61));
        self.apply(&Step::Read(NoticeValue::Maintenance(Vec::new())));
        for _ in 0..40 {
            self.apply(&Step::Pass(11));
        }
        assert_eq!(self.lifecycle.step(self.now), [], "nothing is left to do");
        if self.spot.is_some() {
            assert_eq!(self.node["spec"]["unschedulable"], true);
            assert!(self.node["metadata"]["annotations"]["kerf.sh/interruption-deadline"].is_string());
            return;
        }
        assert_eq!(
            self.node["spec"]["unschedulable"] == true,
            self.cordoned_by_others,
            "{:?}",
            self.lifecycle.journal()
        );
        assert_eq!(self.node["metadata"]["labels"][LABEL].is_string(), self.excluded_by_others);
        assert!(self.node["metadata"]["annotations"]["kerf.sh/interruption-deadline"].is_null());
        let conditions = self.node["status"]["conditions"].as_array().unwrap();
        let is_true = |kind: &str| conditions.iter().any(|it| it["type"] == kind && it["status"] == "True");
        assert!(!is_true("kerf.sh/Interrupted") && !is_true("kerf.sh/MaintenanceScheduled"), "{conditions:?}");
        assert_eq!((self.lifecycle.journal().leftover, self.lifecycle.journal().order.clone()), (None, None));
    }
}

fn start(journal: Journal, now: Millis) -> Lifecycle {
    let mut lifecycle = Lifecycle::new(NAME, journal, now);
    let since = jiff::Timestamp::UNIX_EPOCH;
    lifecycle.take(Input::Bootstrap(Some(BootstrapState::Done { node_name: NAME.into(), since })), now);
    lifecycle
}

fn any_notice() -> impl Strategy<Value = NoticeValue> {
    let soon = |seconds: u64| T0 + Duration::from_secs(seconds);
    let action = prop_oneof![Just("terminate".to_owned()), Just("stop".to_owned())];
    let standing = prop_oneof![3 => Just(MaintenanceState::Active), 1 => Just(MaintenanceState::Completed), 1 => Just(MaintenanceState::Canceled)];
    let event = (0_u8..3, standing, 0_u64..9000).prop_map(move |(event, standing, seconds)| Maintenance {
        event: format!("e{event}"),
        code: if event == 0 { "instance-reboot" } else { "instance-stop" }.to_owned(),
        standing,
        not_before: soon(seconds),
        not_after: None,
    });
    let state = prop_oneof![Just("Terminated".to_owned()), Just("InService".to_owned()), Just("Standby".to_owned())];
    prop_oneof![
        1 => (action, 0_u64..3000).prop_map(move |(action, seconds)| NoticeValue::Spot { action, time: soon(seconds) }),
        2 => proptest::collection::vec(event, 0..3).prop_map(NoticeValue::Maintenance),
        2 => state.prop_map(NoticeValue::Scaling),
        2 => proptest::option::of(0_u64..200).prop_map(|span| NoticeValue::Shutdown(span.map(Duration::from_secs))),
        1 => (0_u64..200).prop_map(|span| NoticeValue::Reboot(Duration::from_secs(span))),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => any_notice().prop_map(Step::Read),
        4 => prop_oneof![0_u64..3, 0_u64..60, 0_u64..2000].prop_map(Step::Pass),
        3 => Just(Step::Kill),
        1 => (-7200_i64..7200).prop_map(Step::Clock),
        1 => any::<bool>().prop_map(Step::Cordon),
        1 => any::<bool>().prop_map(Step::Exclude),
        2 => any::<bool>().prop_map(|done| Step::Lose { done }),
    ]
}

proptest! {
    #[test]
    fn lifecycle_removes_only_its_own_marks_after_any_sequence(
        steps in proptest::collection::vec(any_step(), 0..60),
    ) {
        let mut model = Model::new();
        steps.iter().for_each(|step| model.apply(step));
        model.settle();
    }

    #[test]
    fn journal_parse_never_panics_and_lifecycle_accepts_result(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        steps in proptest::collection::vec(any_step(), 0..12),
        places in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..4),
    ) {
        drop(Journal::parse(&bytes));
        let mut model = Model::new();
        steps.iter().for_each(|step| model.apply(step));
        let mut bent = model.disk.clone();
        for (place, byte) in places {
            let place = place.index(bent.len());
            bent[place] = byte;
        }
        if let Ok(journal) = Journal::parse(&bent) {
            let mut lifecycle = start(journal, T0);
            lifecycle.take(Input::Node(Some(serde_json::from_value(model.node).unwrap())), T0);
            drop(lifecycle.step(T0));
            let _next = lifecycle.poll_timeout(T0);
        }
    }
}
