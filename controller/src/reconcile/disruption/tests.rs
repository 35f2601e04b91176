//! Tests of commands step by step, with a crash after each operation: a started command continues or is rolled back, and
//! nothing happens twice.

use std::collections::BTreeSet;

use api::objects::Node;
use api::status::Conditioned;
use api::{NodeClaim, annotation, condition, reason, taint};
use jiff::Timestamp;
use kube::ResourceExt;
use planner::CommandReason;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{CommandDecision, CommandEnd, DisruptionCommand, LivePods, begin, decide, finish, stale, view};
use crate::fixture::{at, claim, condition as cond, merge, node, pod, status, words};
use crate::state::index::{Index, Indexed};
use crate::write::writer::{Operation, Target};

const ID: &str = "new-1,new-2";

/// Cluster as the API server stores it, with the index that follows it.
struct Fixture {
    index: Index,
    versions: u64,
    now: Timestamp,
}

impl Fixture {
    /// Creates two nodes in use, with their NodeClaims.
    fn settled() -> Self {
        let mut fixture = Self { index: Index::default(), versions: 100, now: at(1000) };
        for number in [1, 2] {
            fixture.add(initialized(&format!("old-{number}"), number).as_ref().clone());
            let name = format!("node-{number}");
            let spec = json!({"providerID": provider(number), "taints": [{"key": "own", "effect": "NoSchedule"}]});
            fixture.add(node(&json!({"metadata": {"name": name, "uid": name}, "spec": spec})).as_ref().clone());
        }
        fixture
    }

    fn add<K: Indexed>(&mut self, mut object: K) {
        self.versions += 1;
        object.meta_mut().resource_version = Some(self.versions.to_string());
        drop(self.index.apply(object, self.now, true));
    }

    fn change<K: Indexed + Serialize + DeserializeOwned>(&mut self, object: &K, change: &Value) {
        if let Some(version) = change.pointer("/metadata/resourceVersion") {
            assert_eq!(Some(version.as_str().unwrap()), object.meta().resource_version.as_deref(), "an old version");
        }
        let mut body = serde_json::to_value(object).unwrap();
        merge(&mut body, change);
        self.add(serde_json::from_value::<K>(body).unwrap());
    }

    fn claim(&self, name: &str) -> Option<NodeClaim> {
        self.index.claims.get(name).map(|claim| claim.as_ref().clone())
    }

    fn run(&mut self, step: &Operation) {
        match step {
            Operation::CreateClaim(claim) => self.add(claim.as_ref().clone()),
            Operation::Patch(Target::Claim(name), body) | Operation::PatchStatus(Target::Claim(name), body) => {
                let claim = self.claim(name).unwrap();
                self.change(&claim, body);
            }
            Operation::Patch(Target::Node(name), body) => {
                let node = self.index.nodes.get(name).unwrap().as_ref().clone();
                self.change(&node, body);
            }
            Operation::Delete(Target::Claim(name), uid) => {
                let claim = self.claim(name).unwrap();
                assert_eq!(claim.metadata.uid.as_deref(), Some(uid.as_str()));
                self.change(&claim, &json!({"metadata": {"deletionTimestamp": self.now.to_string()}}));
            }
            Operation::Note(_) => {}
            other => panic!("a move does not {other:?}"),
        }
    }

    fn run_all(&mut self, steps: &[Operation]) {
        steps.iter().for_each(|step| self.run(step));
    }

    fn decide(&self) -> CommandDecision {
        view(&self.index, ID, &LivePods::new(), self.now).map(|view| decide(&view)).unwrap_or_default()
    }

    fn begin(&mut self) {
        let steps = begin(&self.index, &order(), self.now).unwrap();
        self.run_all(&steps);
    }

    /// Marks the replacement as initialized.
    fn initialize(&mut self, name: &str) {
        let claim = self.claim(name).unwrap();
        let conditions = [cond(condition::LAUNCHED, "True", 1001), cond(condition::INITIALIZED, "True", 1060)];
        self.change(&claim, &json!({"status": {"conditions": conditions}}));
    }

    fn going(&self) -> Vec<String> {
        let going = self.index.claims.values().filter(|claim| claim.metadata.deletion_timestamp.is_some());
        going.map(|claim| claim.name_any()).collect()
    }

    /// Reports whether node and NodeClaim have no trace of a command.
    fn is_open(&self, number: usize) -> bool {
        let claim = self.claim(&format!("old-{number}")).unwrap();
        let node = self.index.nodes.get(&format!("node-{number}")).unwrap();
        let taints: Vec<&str> = node.spec.taints.iter().map(|taint| taint.key.as_str()).collect();
        let cond = api::status::find(claim.conditions(), condition::DISRUPTION_REASON);
        taints == ["own"] && cond.is_none() && claim.replaced_by().is_none()
    }

    fn is_closed(&self, number: usize) -> bool {
        let node = self.index.nodes.get(&format!("node-{number}")).unwrap();
        node.has_taint("own", taint::NO_SCHEDULE) && node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE)
    }

    /// Runs a new process on this cluster. Existing replacements become initialized if `replacements_come_up`.
    fn recover(&mut self, replacements_come_up: bool) {
        for _ in 0..4 {
            let found = view(&self.index, ID, &LivePods::new(), self.now).map(|view| decide(&view)).unwrap_or_default();
            self.run_all(&found.steps);
            let left = stale(&self.index, &BTreeSet::new());
            self.run_all(&left);
            let made: Vec<String> = self.index.claims.keys().filter(|name| name.starts_with("new")).cloned().collect();
            made.iter().filter(|_| replacements_come_up).for_each(|name| self.initialize(name));
        }
    }
}

fn provider(number: usize) -> String {
    format!("aws:///us-west-2a/i-{number}")
}

fn initialized(name: &str, number: usize) -> std::sync::Arc<NodeClaim> {
    let mut change = status(&[cond(condition::LAUNCHED, "True", 1), cond(condition::INITIALIZED, "True", 60)]);
    let own = json!({"status": {"providerID": provider(number), "nodeName": format!("node-{number}")}});
    merge(&mut change, &own);
    merge(&mut change, &json!({"metadata": {"name": name, "uid": name}}));
    claim(&change)
}

fn replacement(name: &str) -> NodeClaim {
    claim(&json!({"metadata": {"name": name, "uid": name, "annotations": null}})).as_ref().clone()
}

fn order() -> DisruptionCommand {
    DisruptionCommand {
        records: Vec::new(),
        reason: CommandReason::Underutilized,
        claims: vec!["old-1".to_owned(), "old-2".to_owned()],
        unhealthy: None,
        replacements: vec![replacement("new-1"), replacement("new-2")],
        places: Vec::new(),
    }
}

fn alone(reason: CommandReason) -> DisruptionCommand {
    DisruptionCommand { reason, replacements: Vec::new(), ..order() }
}

#[test]
fn command_taints_then_launches_then_waits_then_deletes() {
    let mut fixture = Fixture::settled();
    let steps = begin(&fixture.index, &order(), fixture.now).unwrap();
    assert_eq!(
        words(&steps),
        [
            "status of claim old-1",
            "status of claim old-2",
            "patch node node-1",
            "patch node node-2",
            "patch claim old-1",
            "patch claim old-2",
            "create",
            "create"
        ]
    );
    fixture.run_all(&steps);
    assert!(fixture.is_closed(1) && fixture.is_closed(2));
    for (new, old) in [("new-1", "old-1"), ("new-2", "old-2")] {
        assert_eq!(fixture.claim(new).unwrap().replaces().collect::<Vec<_>>(), ["old-1", "old-2"]);
        assert_eq!(fixture.claim(old).unwrap().replaced_by(), Some(ID));
    }
    let why = fixture.claim("old-1").unwrap();
    let why = api::status::find(why.conditions(), condition::DISRUPTION_REASON).unwrap();
    assert_eq!((why.status.as_str(), why.reason.as_str()), ("True", "Underutilized"));

    let waiting = fixture.decide();
    assert_eq!(words(&waiting.steps), vec![format!("event {}", reason::DISRUPTION_LAUNCHING); 2]);
    assert!(waiting.end.is_none() && waiting.after.is_some());
    fixture.initialize("new-1");
    assert!(fixture.decide().end.is_none(), "one of two is not enough");
    fixture.initialize("new-2");
    let done = fixture.decide();
    let deletions: Vec<String> = words(&done.steps).into_iter().filter(|word| !word.starts_with("event")).collect();
    assert_eq!(deletions, ["delete claim old-1 (old-1)", "delete claim old-2 (old-2)"]);
    fixture.run_all(&done.steps);
    assert!(fixture.decide().steps.is_empty() && fixture.decide().end.is_none(), "nothing is left to do");
}

#[test]
fn decide_repeats_no_operation_when_nothing_changed() {
    let mut fixture = Fixture::settled();
    fixture.begin();
    for _ in 0..3 {
        let decision = fixture.decide();
        assert!(decision.steps.iter().all(|step| matches!(step, Operation::Note(_))), "{:?}", words(&decision.steps));
        fixture.run_all(&decision.steps);
    }
    assert!(
        stale(&fixture.index, &BTreeSet::new()).is_empty(),
        "a move that is under way is not left over from anything"
    );
    assert!(begin(&fixture.index, &order(), fixture.now).is_none(), "what is under way does not begin again");
}

/// The process ends after each operation of the start. No node may be removed before all replacements are initialized. In the
/// end either all nodes are removed, or everything is as before.
#[test]
fn begin_completes_or_leaves_no_trace_after_a_crash() {
    let steps = begin(&Fixture::settled().index, &order(), at(1000)).unwrap();
    for survived in 0..=steps.len() {
        for come_up in [true, false] {
            let mut fixture = Fixture::settled();
            let steps = begin(&fixture.index, &order(), fixture.now).unwrap();
            fixture.run_all(&steps[..survived]);
            fixture.recover(come_up);
            let whole = survived == steps.len();
            match (whole, come_up) {
                (true, true) => assert_eq!(fixture.going(), ["old-1", "old-2"], "after {survived} steps"),
                (true, false) => assert!(fixture.going().is_empty() && fixture.is_closed(1) && fixture.is_closed(2)),
                (false, _) => {
                    assert!(fixture.going().is_empty(), "after {survived} steps {:?} go", fixture.going());
                    assert!(fixture.is_open(1) && fixture.is_open(2), "after {survived} steps something is left");
                }
            }
        }
    }
}

#[test]
fn decide_deletes_the_second_claim_after_a_crash() {
    let mut fixture = Fixture::settled();
    fixture.begin();
    fixture.initialize("new-1");
    fixture.initialize("new-2");
    let first = fixture.decide().steps.into_iter().find(|step| matches!(step, Operation::Delete(..))).unwrap();
    fixture.run(&first);
    fixture.recover(false);
    assert_eq!(fixture.going(), ["old-1", "old-2"]);
}

/// Returns a cluster with a command in progress that cannot continue.
fn failed_command(late: bool) -> Fixture {
    let mut fixture = Fixture::settled();
    fixture.begin();
    if late {
        fixture.now = at(1700);
    } else {
        drop(fixture.index.delete::<NodeClaim>("new-2", fixture.now));
    }
    fixture
}

#[test]
fn decide_completes_a_rollback_after_a_crash() {
    for late in [true, false] {
        let steps = failed_command(late).decide().steps.len();
        assert!(steps > 4, "{steps}");
        for survived in 0..=steps {
            let mut fixture = failed_command(late);
            let steps = fixture.decide().steps;
            fixture.run_all(&steps[..survived]);
            fixture.recover(true);
            let open = fixture.is_open(1) && fixture.is_open(2);
            assert!(open && fixture.going().is_empty(), "late: {late}, after {survived} steps");
            assert!(fixture.claim("new-1").is_some(), "what was launched stays as capacity");
        }
    }
}

fn rolled_back(decision: &CommandDecision) -> Option<(String, usize)> {
    match &decision.end {
        Some(CommandEnd::RolledBack { why, unready, .. }) => Some((why.clone(), *unready)),
        _ => None,
    }
}

#[test]
fn decide_rolls_back_when_a_replacement_is_deleted() {
    let going = json!({"metadata": {"deletionTimestamp": at(1100).to_string()}});
    for gone in [true, false] {
        let mut fixture = Fixture::settled();
        fixture.begin();
        fixture.initialize("new-1");
        fixture.initialize("new-2");
        if gone {
            drop(fixture.index.delete::<NodeClaim>("new-2", fixture.now));
        } else {
            let claim = fixture.claim("new-2").unwrap();
            fixture.change(&claim, &going);
        }
        let decision = fixture.decide();
        let unready = usize::from(gone);
        assert_eq!(rolled_back(&decision), Some(("replacement new-2 was deleted".to_owned(), unready)));
        fixture.run_all(&decision.steps);
        assert!(fixture.is_open(1) && fixture.is_open(2));
        assert!(fixture.decide().steps.is_empty(), "once");
    }
}

#[test]
fn patience_grows_with_queued_claims_within_bounds() {
    for (queued, seconds) in [(2, 600), (7500, 600), (10_000, 800), (45_000, 3600), (100_000, 3600)] {
        let mut fixture = Fixture::settled();
        fixture.begin();
        for (passed, expected) in [(seconds - 1, false), (seconds, true)] {
            fixture.now = at(1000 + passed);
            let mut view = view(&fixture.index, ID, &LivePods::new(), fixture.now).unwrap();
            view.queued = queued;
            let decision = decide(&view);
            assert_eq!(rolled_back(&decision).is_some(), expected, "{queued} queued, after {passed} s");
            if !expected {
                assert_eq!(decision.after, Some(std::time::Duration::from_secs(1)), "the timeout itself wakes it");
            }
        }
    }
}

/// Only a replacement that had its time failed: another cause says nothing about the NodePool of the replacements.
#[test]
fn decide_names_late_replacements_only_after_the_timeout() {
    let late = |fixture: &Fixture| match fixture.decide().end {
        Some(CommandEnd::RolledBack { late, .. }) => late.iter().map(|claim| claim.name_any()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let mut fixture = failed_command(true);
    assert_eq!(late(&fixture), ["new-1", "new-2"]);
    fixture.initialize("new-1");
    assert_eq!(late(&fixture), ["new-2"]);
    assert_eq!(late(&failed_command(false)), [] as [String; 0]);
}

#[test]
fn decide_completes_when_replacements_are_ready_late() {
    let mut fixture = Fixture::settled();
    fixture.begin();
    fixture.now = at(1000 + 700);
    fixture.initialize("new-1");
    fixture.initialize("new-2");
    assert!(matches!(fixture.decide().end, Some(CommandEnd::Done { .. })));
}

/// Returns the decision after a pod with this annotation has come to `node-1` during a command.
fn held(annotation: (&str, &str), reason: CommandReason, grace: bool) -> CommandDecision {
    let mut fixture = Fixture::settled();
    if grace {
        for name in ["old-1", "old-2"] {
            let claim = fixture.claim(name).unwrap();
            fixture.change(&claim, &json!({"spec": {"terminationGracePeriod": "5m"}}));
        }
    }
    let steps = begin(&fixture.index, &DisruptionCommand { reason, ..order() }, fixture.now).unwrap();
    fixture.run_all(&steps);
    fixture.initialize("new-1");
    fixture.initialize("new-2");
    let started = json!({"startTime": fixture.now.to_string()});
    let asks = json!({"metadata": {"annotations": {annotation.0: annotation.1}}, "status": started});
    fixture.add(pod(&asks).as_ref().clone());
    fixture.decide()
}

/// A plan moves no pod that rests, but kube-scheduler may bind one before the node is tainted.
#[test]
fn decide_rolls_back_when_a_resting_pod_has_come_meanwhile() {
    let rests = (annotation::DISRUPT_AT_MOST_ONCE_PER, "1h");
    let why = "pod default/web has started since, and kerf.sh/disrupt-at-most-once-per protects it until";
    for (reason, stays) in [
        (CommandReason::Underutilized, true),
        (CommandReason::Drifted, false),
        (CommandReason::Expired, false),
        (CommandReason::Unhealthy, false),
    ] {
        let found = rolled_back(&held(rests, reason, false));
        assert_eq!(found.is_some_and(|(found, _)| found.starts_with(why)), stays, "{reason}");
    }
    let rested = (annotation::DISRUPT_AT_MOST_ONCE_PER, "0s");
    assert_eq!(rolled_back(&held(rested, CommandReason::Underutilized, false)), None);
}

#[test]
fn decide_rolls_back_when_a_pod_blocks_a_node_meanwhile() {
    let protects = (annotation::DO_NOT_DISRUPT, "true");
    let why = || Some(("pod default/web has karpenter.sh/do-not-disrupt since".to_owned(), 0));
    for (reason, grace, stays) in [
        (CommandReason::Underutilized, false, true),
        (CommandReason::Underutilized, true, true),
        (CommandReason::Drifted, false, true),
        (CommandReason::Drifted, true, false),
        (CommandReason::Expired, true, false),
        (CommandReason::Unhealthy, false, false),
    ] {
        let decision = held(protects, reason, grace);
        assert_eq!(rolled_back(&decision), why().filter(|_| stays), "{reason}, grace period: {grace}");
    }
}

#[test]
fn decide_restores_the_taint_when_it_was_removed() {
    let mut fixture = Fixture::settled();
    fixture.begin();
    let node = fixture.index.nodes.get("node-2").unwrap().as_ref().clone();
    fixture.change(&node, &json!({"spec": {"taints": [{"key": "own", "effect": "NoSchedule"}]}}));
    let steps = fixture.decide().steps;
    assert_eq!(words(&steps)[0], "patch node node-2");
    fixture.run_all(&steps);
    assert!(fixture.is_closed(2));
}

#[test]
fn decide_continues_when_a_claim_is_deleted_meanwhile() {
    let mut fixture = Fixture::settled();
    fixture.begin();
    let claim = fixture.claim("old-1").unwrap();
    fixture.change(&claim, &json!({"metadata": {"deletionTimestamp": at(1001).to_string()}}));
    fixture.recover(true);
    assert_eq!(fixture.going(), ["old-1", "old-2"]);
}

/// Returns all operations of a command without replacements, if no pod arrives.
fn whole(fixture: &Fixture, order: &DisruptionCommand) -> Vec<Operation> {
    let mut steps = begin(&fixture.index, order, fixture.now).unwrap();
    steps.extend(finish(&fixture.index, order, &LivePods::new(), fixture.now).unwrap());
    steps
}

/// kube-scheduler may bind a pod after the plan and before the taint. The watch shows it too late, the live list does not.
#[test]
fn finish_keeps_the_nodes_when_a_live_list_shows_a_new_pod() {
    let protects = json!({"metadata": {"annotations": {annotation::DO_NOT_DISRUPT: "true"}}});
    let rests = json!({
        "metadata": {"annotations": {annotation::DISRUPT_AT_MOST_ONCE_PER: "1h"}},
        "status": {"startTime": Fixture::settled().now.to_string()},
    });
    let occupied = Some("a pod was bound to the node of old-1 since");
    let protected = Some("pod default/web has karpenter.sh/do-not-disrupt since");
    let resting = Some("pod default/web has started since");
    for (what, guest, reason, expected) in [
        ("any pod on an empty node", json!({}), CommandReason::Empty, occupied),
        ("a pod that can move", json!({}), CommandReason::Underutilized, None),
        ("a protected pod", protects.clone(), CommandReason::Underutilized, protected),
        ("a protected pod on a drifted node", protects.clone(), CommandReason::Drifted, protected),
        ("a protected pod on an unhealthy node", protects, CommandReason::Unhealthy, None),
        ("a resting pod", rests.clone(), CommandReason::Underutilized, resting),
        ("a resting pod on a drifted node", rests, CommandReason::Drifted, None),
    ] {
        let mut fixture = Fixture::settled();
        let order = alone(reason);
        let steps = begin(&fixture.index, &order, fixture.now).unwrap();
        fixture.run_all(&steps);
        let live = LivePods::from([("node-1".to_owned(), vec![pod(&guest)]), ("node-2".to_owned(), Vec::new())]);
        let found = finish(&fixture.index, &order, &live, fixture.now);
        let why = found.as_ref().err().map(String::as_str);
        assert_eq!(why.is_some(), expected.is_some(), "{what}: {why:?}");
        assert!(why.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{what}: {why:?}");
        fixture.run_all(&found.unwrap_or_default());
        fixture.recover(true);
        let kept = fixture.going().is_empty();
        assert_eq!(kept, expected.is_some(), "{what}");
        assert!(!kept || fixture.is_open(1) && fixture.is_open(2), "{what}: the next plan opens the nodes");
    }
}

#[test]
fn decide_rolls_back_when_a_live_list_shows_a_pod_that_the_watch_does_not() {
    let mut fixture = Fixture::settled();
    fixture.begin();
    fixture.initialize("new-1");
    fixture.initialize("new-2");
    assert!(matches!(fixture.decide().end, Some(CommandEnd::Done { .. })));
    let guest = pod(&json!({"metadata": {"annotations": {annotation::DO_NOT_DISRUPT: "true"}}}));
    let live = LivePods::from([("node-2".to_owned(), vec![guest])]);
    let decision = decide(&view(&fixture.index, ID, &live, fixture.now).unwrap());
    let why = "pod default/web has karpenter.sh/do-not-disrupt since".to_owned();
    assert_eq!(rolled_back(&decision), Some((why, 0)));
}

#[test]
fn begin_deletes_at_once_when_no_replacement_is_needed() {
    let mut fixture = Fixture::settled();
    let order = alone(CommandReason::Empty);
    let steps = whole(&fixture, &order);
    let acts: Vec<String> = words(&steps).into_iter().filter(|word| !word.starts_with("event")).collect();
    assert_eq!(
        acts,
        [
            "status of claim old-1",
            "status of claim old-2",
            "patch node node-1",
            "patch node node-2",
            "delete claim old-1 (old-1)",
            "delete claim old-2 (old-2)"
        ]
    );
    for survived in 0..=steps.len() {
        let mut fixture = Fixture::settled();
        let steps = whole(&fixture, &order);
        fixture.run_all(&steps[..survived]);
        let going = fixture.going();
        fixture.recover(true);
        assert_eq!(fixture.going(), going, "a plan decides anew about the rest");
        for number in [1, 2].into_iter().filter(|number| !going.contains(&format!("old-{number}"))) {
            assert!(fixture.is_open(number), "after {survived} steps");
        }
    }
    fixture.run_all(&steps);
    assert_eq!(fixture.going(), ["old-1", "old-2"]);
    assert!(begin(&fixture.index, &order, fixture.now).is_none());
}

#[test]
fn begin_sets_a_passed_deadline_when_nodes_are_unhealthy() {
    for replacements in [Vec::new(), order().replacements] {
        let mut fixture = Fixture::settled();
        let order = DisruptionCommand { replacements, ..alone(CommandReason::Unhealthy) };
        let steps = begin(&fixture.index, &order, fixture.now).unwrap();
        fixture.run_all(&steps);
        let decide = fixture.decide();
        fixture.run_all(&decide.steps);
        fixture.run_all(&finish(&fixture.index, &order, &LivePods::new(), fixture.now).unwrap());
        assert_eq!(fixture.going(), ["old-1", "old-2"], "it does not wait");
        let annotations = fixture.claim("old-1").unwrap().metadata.annotations.unwrap();
        assert_eq!(annotations[annotation::TERMINATION_TIMESTAMP], at(1000).to_string());
    }
}

#[test]
fn begin_keeps_a_deadline_that_has_passed_already() {
    let mut fixture = Fixture::settled();
    for (name, deadline) in [("old-1", at(900)), ("old-2", at(2000))] {
        let claim = fixture.claim(name).unwrap();
        let annotations = json!({annotation::TERMINATION_TIMESTAMP: deadline.to_string()});
        fixture.change(&claim, &json!({"metadata": {"annotations": annotations}}));
    }
    let steps = whole(&fixture, &alone(CommandReason::Unhealthy));
    fixture.run_all(&steps);
    let deadline = |name: &str| {
        fixture.claim(name).unwrap().metadata.annotations.unwrap()[annotation::TERMINATION_TIMESTAMP].clone()
    };
    assert_eq!(deadline("old-1"), at(900).to_string());
    assert_eq!(deadline("old-2"), at(1000).to_string(), "one that is still ahead is brought forward");
}

#[test]
fn begin_returns_none_when_a_claim_is_gone() {
    let mut fixture = Fixture::settled();
    drop(fixture.index.delete::<NodeClaim>("old-2", fixture.now));
    assert!(begin(&fixture.index, &order(), fixture.now).is_none());
}

#[test]
fn begin_returns_none_when_a_new_pod_blocks_a_node() {
    let daemon = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cni", "uid": "cni", "controller": true},
    ]}});
    let asks = json!({"metadata": {"annotations": {annotation::DO_NOT_DISRUPT: "true"}}});
    let rests = json!({
        "metadata": {"annotations": {annotation::DISRUPT_AT_MOST_ONCE_PER: "1h"}},
        "status": {"startTime": Fixture::settled().now.to_string()},
    });
    for (what, guest, reason, begins) in [
        ("a guest on an empty node", json!({}), CommandReason::Empty, false),
        ("a daemon's pod", daemon, CommandReason::Empty, true),
        ("a guest that can move", json!({}), CommandReason::Underutilized, true),
        ("one that asks to be left alone", asks.clone(), CommandReason::Underutilized, false),
        ("one that asks, on a sick node", asks, CommandReason::Unhealthy, true),
        ("one that has just started and rests", rests.clone(), CommandReason::Underutilized, false),
        ("one that rests, on a drifted node", rests, CommandReason::Drifted, true),
    ] {
        let mut fixture = Fixture::settled();
        fixture.add(pod(&guest).as_ref().clone());
        assert_eq!(begin(&fixture.index, &alone(reason), fixture.now).is_some(), begins, "{what}");
    }
}

#[test]
fn stale_ignores_claims_of_starting_commands() {
    let mut fixture = Fixture::settled();
    let steps = begin(&fixture.index, &alone(CommandReason::Empty), fixture.now).unwrap();
    fixture.run_all(&steps[..4]);
    assert_eq!(stale(&fixture.index, &BTreeSet::from(["old-1", "old-2"])).len(), 0);
    assert_eq!(stale(&fixture.index, &BTreeSet::from(["old-1"])).len(), 2, "taint and condition of the other");
}

#[test]
fn decide_restarts_the_wait_when_the_clock_is_set_back() {
    let mut fixture = Fixture::settled();
    fixture.begin();
    fixture.now = at(100);
    let decision = fixture.decide();
    assert!(decision.end.is_none(), "{:?}", decision.end);
    assert_eq!(decision.after, Some(super::LEAST_PATIENCE));
}

#[test]
fn stale_ignores_nodes_without_claim_and_begin_missing_nodes() {
    let mut fixture = Fixture::settled();
    let closed = json!([{"key": taint::DISRUPTED, "effect": taint::NO_SCHEDULE}]);
    let alone =
        json!({"metadata": {"name": "alone", "uid": "alone"}, "spec": {"providerID": provider(9), "taints": closed}});
    fixture.add(node(&alone).as_ref().clone());
    assert!(stale(&fixture.index, &BTreeSet::new()).is_empty(), "its command is unknown");
    drop(fixture.index.delete::<Node>("node-1", fixture.now));
    fixture.begin();
    assert!(fixture.is_closed(2));
    ["new-1", "new-2"].iter().for_each(|name| fixture.initialize(name));
    let steps = fixture.decide().steps;
    fixture.run_all(&steps);
    assert_eq!(fixture.going(), ["old-1", "old-2"]);
}
