//! What pods are told, and what pods that stand for a buffer's room are not.

use api::reason;
use jiff::Timestamp;
use planner::{
    Launch, MicroDollars, Nomination, Plan, PodVerdict, Preference, Purpose, Report, Resources, Snapshot, Why,
};
use serde_json::json;
use snapshot::Built;

use super::{Outcome, of};
use crate::fixture::{class, pod, pool};
use crate::index::Index;

/// The pod `default/web` waits; so does room that a buffer of another name keeps under the same pod name.
fn waiting(buffer: bool) -> planner::Pod {
    planner::Pod {
        uid: "pod-uid".to_owned(),
        name: "default/web".to_owned(),
        buffer: buffer.then(|| "default/spare".to_owned()),
        ..planner::Pod::default()
    }
}

fn outcome(buffer: bool, verdict: PodVerdict) -> Outcome {
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
    of(&index, &Built { snapshot, ..Built::default() }, &plan)
}

fn told(outcome: &Outcome) -> Vec<(&str, &str)> {
    outcome.notes.iter().map(|note| (note.reason(), note.message())).collect()
}

fn spread() -> Vec<Preference> {
    vec![Preference::Spread { key: "zone".to_owned() }, Preference::SoftTaints]
}

#[test]
fn a_pod_hears_where_it_should_go_and_without_what() {
    let node = "node-1".to_owned();
    let rows = [
        (Vec::new(), "Pod should schedule on: node/node-1"),
        (
            spread(),
            "Pod should schedule on: node/node-1; dropped: an even spread by zone, keeping off PreferNoSchedule taints",
        ),
    ];
    for (dropped, message) in rows {
        let outcome = outcome(false, PodVerdict::Existing { node: node.clone(), why: Why::Room, dropped });
        assert_eq!(told(&outcome), [(reason::NOMINATED, message)]);
        assert_eq!(outcome.nominations["node-1"], ["pod-uid"]);
    }
    let outcome = outcome(false, PodVerdict::Launch { launch: 0, why: Why::Opened, dropped: spread() });
    let name = outcome.launches[0].0.metadata.name.clone().unwrap_or_default();
    let [(reason::NOMINATED, message)] = told(&outcome)[..] else { panic!("{:?}", outcome.notes) };
    assert!(message.starts_with(&format!("Pod should schedule on: nodeclaim/{name}; dropped: an even")), "{message}");
    assert_eq!(outcome.launches[0].1, ["pod-uid"]);
}

#[test]
fn room_that_a_buffer_keeps_is_bought_but_nobody_hears_of_it() {
    let rows = [
        (PodVerdict::Existing { node: "node-1".to_owned(), why: Why::Room, dropped: Vec::new() }, 0),
        (PodVerdict::Launch { launch: 0, why: Why::Opened, dropped: Vec::new() }, 1),
        (PodVerdict::Unschedulable { pools: Vec::new() }, 0),
    ];
    for (verdict, launches) in rows {
        let seen = outcome(false, verdict.clone());
        assert_eq!(seen.notes.len(), 1, "{verdict}");
        let outcome = outcome(true, verdict);
        assert_eq!(outcome.launches.len(), launches);
        assert!(outcome.launches.iter().all(|(_, pods)| pods.is_empty()));
        assert!(outcome.notes.is_empty() && outcome.nominations.is_empty(), "{:?}", outcome.notes);
        assert_eq!(outcome.unschedulable, 0);
    }
}

#[test]
fn a_pool_that_can_buy_nothing_is_told_while_a_pod_waits() {
    let now = Timestamp::UNIX_EPOCH;
    let mut index = Index::default();
    drop(index.apply(pool(&json!({})).as_ref().clone(), now, true));
    let report = Report { pods: vec![PodVerdict::Postponed], barren: vec!["default".to_owned()], ..Report::default() };
    for (pods, expected) in [(Vec::new(), 0), (vec![waiting(false)], 1)] {
        let plan = Plan { report: report.clone(), ..Plan::default() };
        let snapshot = Snapshot { pods, ..Snapshot::default() };
        let outcome = of(&index, &Built { snapshot, ..Built::default() }, &plan);
        let reasons: Vec<&str> = told(&outcome).into_iter().map(|(reason, _)| reason).collect();
        assert_eq!(reasons, vec![reason::NO_COMPATIBLE_INSTANCE_TYPES; expected]);
    }
}
