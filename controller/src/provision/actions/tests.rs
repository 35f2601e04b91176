//! Tests of the events of pods, and of pods of a CapacityBuffer without events.

use api::{annotation, label, reason};
use jiff::Timestamp;
use planner::{
    CommandCause, CommandReason, Destination, DisruptedNode, Launch, MicroDollars, Nomination, PlacementReason, Plan,
    PlannedCommand, PodVerdict, Preference, Purpose, Relocation, Report, Resources, Snapshot,
};
use serde_json::json;
use snapshot::SnapshotResult;

use super::{PlanActions, PlannedClaim, from_plan};
use crate::fixture::{PROVIDER_ID, claim, class, node, pod, pool, words};
use crate::state::attempts::launches::PodGroup;
use crate::state::index::Index;
use crate::write::events::Event;

/// Returns the pending pod `default/web`, optionally as capacity of a buffer under the same pod name.
fn waiting(buffer: bool) -> planner::Pod {
    planner::Pod {
        uid: "pod-uid".to_owned(),
        name: "default/web".to_owned(),
        holder: buffer.then(|| planner::CapacityHolder::Buffer("default/spare".to_owned())),
        ..planner::Pod::default()
    }
}

fn outcome(buffer: bool, verdict: PodVerdict) -> PlanActions {
    let mut index = Index::default();
    let now = Timestamp::UNIX_EPOCH;
    drop(index.apply(pod(&json!({"spec": {"nodeName": null}})).as_ref().clone(), now, true));
    drop(index.apply(pool(&json!({})).as_ref().clone(), now, true));
    drop(index.apply(class(&json!({})).as_ref().clone(), now, true));
    let launched = matches!(verdict, PodVerdict::Launch { .. });
    let existing = matches!(verdict, PodVerdict::Existing { .. });
    let launch = Launch {
        pool: "default".to_owned(),
        requirements: Vec::new(),
        instance_types: vec!["m5.large".to_owned()].into(),
        requests: Resources::default(),
        min_instance_types: None,
        pods: vec![0],
        price: MicroDollars(1),
        commitment: None,
        purpose: Purpose::Provision,
        min_values_relaxed: false,
    };
    let plan = Plan {
        launches: launched.then_some(launch).into_iter().collect(),
        nominations: existing.then(|| Nomination { pod: 0, node: "node-1".to_owned() }).into_iter().collect(),
        report: Report { pods: vec![verdict], ..Report::default() },
        ..Plan::default()
    };
    let snapshot = Snapshot { pods: vec![waiting(buffer)], ..Snapshot::default() };
    let built = SnapshotResult { snapshot, ..SnapshotResult::default() };
    let mut outcome = from_plan(&index, &built, &plan, &[]);
    let events: Vec<Event> = outcome.pod_events.iter(&index, &built, &plan).collect();
    outcome.notes.splice(0..0, events);
    outcome
}

fn published(outcome: &PlanActions) -> Vec<(&str, &str)> {
    outcome.notes.iter().map(|note| (note.reason(), note.message())).collect()
}

fn spread() -> Vec<Preference> {
    vec![Preference::Spread { key: "zone".to_owned() }, Preference::SoftTaints]
}

#[test]
fn from_plan_reports_nominations_and_dropped_preferences() {
    let node = "node-1".to_owned();
    let rows = [
        (Vec::new(), "Pod should schedule on: node/node-1"),
        (
            spread(),
            "Pod should schedule on: node/node-1; dropped: ScheduleAnyway spread by zone, avoidance of PreferNoSchedule taints",
        ),
    ];
    for (dropped, message) in rows {
        let outcome = outcome(false, PodVerdict::Existing { node: node.clone(), why: PlacementReason::Room, dropped });
        assert_eq!(published(&outcome), [(reason::NOMINATED, message)]);
        assert_eq!(outcome.nominations["node-1"], ["pod-uid"]);
    }
    let outcome = outcome(false, PodVerdict::Launch { launch: 0, why: PlacementReason::Opened, dropped: spread() });
    let name = outcome.launches[0].claim.metadata.name.clone().unwrap_or_default();
    let [(reason::NOMINATED, message)] = published(&outcome)[..] else { panic!("{:?}", outcome.notes) };
    assert!(
        message.starts_with(&format!("Pod should schedule on: nodeclaim/{name}; dropped: ScheduleAnyway spread")),
        "{message}"
    );
    assert_eq!(outcome.launches[0].pods, ["pod-uid"]);
    let group = PodGroup::Controller("pod-uid".to_owned());
    assert_eq!(outcome.launches[0].groups, [(group, ["pod-uid".to_owned()].into())].into());
}

#[test]
fn from_plan_launches_buffer_capacity_without_events() {
    let rows = [
        (PodVerdict::Existing { node: "node-1".to_owned(), why: PlacementReason::Room, dropped: Vec::new() }, 0),
        (PodVerdict::Launch { launch: 0, why: PlacementReason::Opened, dropped: Vec::new() }, 1),
        (PodVerdict::Unschedulable { pools: Vec::new().into() }, 0),
    ];
    for (verdict, launches) in rows {
        let seen = outcome(false, verdict.clone());
        assert_eq!(seen.notes.len(), 1, "{verdict}");
        let unplaced = matches!(verdict, PodVerdict::Unschedulable { .. });
        assert_eq!(seen.unschedulable.get("no_nodepool"), unplaced.then_some(&1), "{verdict}");
        let outcome = outcome(true, verdict);
        assert_eq!(outcome.launches.len(), launches);
        assert!(outcome.launches.iter().all(|planned| planned.pods.is_empty()));
        let group = PodGroup::Buffer("default/spare".to_owned());
        assert!(outcome.launches.iter().all(|planned| planned.groups.contains_key(&group)));
        assert!(outcome.notes.is_empty() && outcome.nominations.is_empty(), "{:?}", outcome.notes);
        assert!(outcome.unschedulable.is_empty());
    }
}

#[test]
fn from_plan_reports_barren_nodepools_when_a_pod_is_pending() {
    let now = Timestamp::UNIX_EPOCH;
    let mut index = Index::default();
    drop(index.apply(pool(&json!({})).as_ref().clone(), now, true));
    let report = Report {
        pods: vec![PodVerdict::Postponed],
        pools_without_types: vec!["default".to_owned()],
        ..Report::default()
    };
    let short =
        Report { pools_without_types: Vec::new(), pools_short_of_values: vec!["default".to_owned()], ..report.clone() };
    let message = "NodePool requirements filtered out all compatible available instance types";
    let of_values = format!("{message} due to minValues incompatibility");
    for (report, message) in [(report, message), (short, of_values.as_str())] {
        for (pods, expected) in [(Vec::new(), 0), (vec![waiting(false)], 1)] {
            let plan = Plan { report: report.clone(), ..Plan::default() };
            let snapshot = Snapshot { pods, ..Snapshot::default() };
            let outcome = from_plan(&index, &SnapshotResult { snapshot, ..SnapshotResult::default() }, &plan, &[]);
            assert_eq!(published(&outcome), vec![(reason::NO_COMPATIBLE_INSTANCE_TYPES, message); expected]);
        }
    }
}

/// Returns the approvals while `default/web` runs on `node-1`, which EC2 recommends to leave. `place` is the planned node of
/// the pod.
fn approved(place: Option<&str>, up: bool, message: &str, annotations: &serde_json::Value) -> Vec<String> {
    approved_by("replace", place, up, message, annotations)
}

fn approved_by(
    policy: &str,
    place: Option<&str>,
    up: bool,
    message: &str,
    annotations: &serde_json::Value,
) -> Vec<String> {
    let now = Timestamp::UNIX_EPOCH;
    let mut index = Index::default();
    let condition = json!({
        "type": "kerf.sh/Interrupted", "status": "True", "reason": "RebalanceRecommendation", "message": message,
    });
    let at_risk = json!({"metadata": {"annotations": annotations}, "status": {"conditions": [condition]}});
    let other = json!({"metadata": {"name": "node-2", "labels": {label::INITIALIZED: up.to_string()}}});
    let of_pool =
        json!({"metadata": {"annotations": {annotation::REBALANCE: policy}}, "status": {"providerID": PROVIDER_ID}});
    drop(index.apply(claim(&of_pool).as_ref().clone(), now, true));
    drop(index.apply(node(&at_risk).as_ref().clone(), now, true));
    drop(index.apply(node(&other).as_ref().clone(), now, true));
    let leaving = planner::Pod { leaving_node: Some("node-1".to_owned()), ..waiting(false) };
    let plan = Plan {
        nominations: place.map(|node| Nomination { pod: 0, node: node.to_owned() }).into_iter().collect(),
        report: Report { pods: vec![PodVerdict::Postponed], ..Report::default() },
        ..Plan::default()
    };
    let snapshot = Snapshot { pods: vec![leaving], ..Snapshot::default() };
    words(&from_plan(&index, &SnapshotResult { snapshot, ..SnapshotResult::default() }, &plan, &[]).approvals)
}

#[test]
fn from_plan_approves_when_pods_have_initialized_nodes() {
    let (asks, none) = ("id=rebalance-1 policy=replace EC2 sees a risk", json!({}));
    assert_eq!(approved(Some("node-2"), true, asks, &none), ["patch node node-1"]);
    assert!(approved(Some("node-2"), false, asks, &none).is_empty(), "it is still on its way");
    assert!(approved(Some("claim-3"), true, asks, &none).is_empty(), "it is no node yet");
    assert!(approved(None, true, asks, &none).is_empty(), "there is no place at all");
    assert!(
        approved(Some("node-2"), true, "id=rebalance-1 EC2 sees a risk", &none).is_empty(),
        "no replacement is requested"
    );
    assert!(approved_by("cordon", Some("node-2"), true, asks, &none).is_empty(), "its NodePool does not replace");
    let done = |id: &str| json!({annotation::REPLACEMENT_APPROVED: id});
    assert!(approved(Some("node-2"), true, asks, &done("rebalance-1")).is_empty(), "once is enough");
    assert_eq!(approved(Some("node-2"), true, asks, &done("rebalance-0")).len(), 1, "that was another one");
}

/// Returns the actions of a plan with a launch for a pending pod and a replacement for `node-1`, which takes one of its pods.
fn moving(begin: &[usize]) -> PlanActions {
    let now = Timestamp::UNIX_EPOCH;
    let mut index = Index::default();
    drop(index.apply(pool(&json!({})).as_ref().clone(), now, true));
    drop(index.apply(class(&json!({})).as_ref().clone(), now, true));
    let launch = |purpose, pods| Launch {
        pool: "default".to_owned(),
        requirements: Vec::new(),
        instance_types: vec!["m5.large".to_owned()].into(),
        requests: Resources::default(),
        min_instance_types: None,
        pods,
        price: MicroDollars(1),
        commitment: None,
        purpose,
        min_values_relaxed: false,
    };
    let place = |uid: &str, to| Relocation {
        uid: uid.to_owned(),
        pod: uid.to_owned(),
        from: "node-1".to_owned(),
        to,
        surge: false,
    };
    let planned = PlannedCommand {
        reason: CommandReason::Underutilized,
        nodes: vec![DisruptedNode { node: "node-1".to_owned(), claim: "default-1".to_owned() }],
        replacements: vec![0],
        pods: vec![
            place("there", Destination::Node("node-2".to_owned())),
            place("new", Destination::Launch(0)),
            place("virtual", Destination::Launch(0)),
        ],
        saving: None,
        cost: 0,
        why: CommandCause::Cheaper,
    };
    let plan = Plan {
        launches: vec![launch(Purpose::Replacement, Vec::new()), launch(Purpose::Provision, vec![0])],
        moves: vec![planned],
        report: Report { pods: vec![PodVerdict::Postponed; 2], ..Report::default() },
        ..Plan::default()
    };
    let held = planner::Pod { uid: "virtual".to_owned(), ..waiting(true) };
    let snapshot = Snapshot { pods: vec![waiting(false), held], ..Snapshot::default() };
    from_plan(&index, &SnapshotResult { snapshot, ..SnapshotResult::default() }, &plan, begin)
}

#[test]
fn from_plan_launches_replacements_when_their_command_begins() {
    let waits = moving(&[]);
    assert!(waits.orders.is_empty());
    let [PlannedClaim { claim: provisioned, pods, .. }] = waits.launches.as_slice() else {
        panic!("{:?}", waits.launches)
    };
    assert_eq!(pods, &["pod-uid"], "pods that wait get their node, whatever the moves do");
    let begins = moving(&[0]);
    assert_eq!(begins.launches.len(), 1);
    assert_eq!(begins.launches[0].claim.metadata.name, provisioned.metadata.name);
    let [order] = begins.orders.as_slice() else { panic!("{:?}", begins.orders) };
    let new = order.replacements[0].metadata.name.clone().unwrap_or_default();
    assert_ne!(Some(&new), provisioned.metadata.name.as_ref());
    assert_eq!((order.claims.as_slice(), order.id()), (["default-1".to_owned()].as_slice(), Some(new.clone())));
    let places: Vec<(&str, &str)> = order.places.iter().map(|(pod, to)| (pod.as_str(), to.as_str())).collect();
    assert_eq!(places, [("there", "node-2"), ("new", new.as_str())], "a virtual pod is not nominated");
}
