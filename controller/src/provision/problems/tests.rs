//! Tests of problem events on the affected object. A pod that can never be evicted is reported on the pod and on all of its
//! budgets.

use api::objects::{PodDisruptionBudget, Unevictable};
use api::{DurationText, InvalidSplit, reason};
use daemon::metric::Series;
use jiff::Timestamp;
use planner::{Pool, Snapshot};
use serde_json::json;
use snapshot::{NeverEvicted, Problem, SnapshotResult, UsageError};

use super::{notes, samples};
use crate::fixture::{claim, class, node, overlay, pod, pool};
use crate::state::index::Index;
use crate::write::events::{Event, ObjectReference};

fn budget(name: &str) -> PodDisruptionBudget {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}})).unwrap()
}

fn index() -> Index {
    let mut index = Index::default();
    let now = Timestamp::UNIX_EPOCH;
    drop(index.apply(pod(&json!({})).as_ref().clone(), now, true));
    drop(index.apply(node(&json!({})).as_ref().clone(), now, true));
    drop(index.apply(claim(&json!({})).as_ref().clone(), now, true));
    drop(index.apply(pool(&json!({})).as_ref().clone(), now, true));
    ["one", "two"].into_iter().for_each(|name| drop(index.apply(budget(name), now, true)));
    index
}

#[test]
fn notes_report_each_problem_on_its_object() {
    let index = index();
    let node = index.nodes.values().next().unwrap();
    let claim = index.claims.values().next().unwrap();
    let pool = index.pools.values().next().unwrap();
    let web = index.pods.values().next().unwrap();
    let name = || node.name().to_owned();
    let split = |pod: &str| Problem::Mix {
        pod: pod.to_owned(),
        others: 2,
        error: InvalidSplit::Base { text: "two".to_owned() },
    };
    let expire_after = Problem::Claim {
        claim: claim.metadata.name.clone().unwrap(),
        field: "spec.expireAfter",
        error: DurationText("soon".to_owned()).nanos().unwrap_err(),
    };
    let consolidate_after = Problem::ConsolidateAfter { pool: "default".to_owned(), text: "soon".to_owned() };
    let idle = Problem::SelectsNothing { budget: "default/one".to_owned(), has_selector: true };
    let unclaimed = Problem::Unclaimed { node: name(), others: 0, pool: "default".to_owned() };
    let cost = Problem::Ineffective {
        kind: "NodePool",
        name: "default".to_owned(),
        others: 0,
        setting: api::ineffective::limits(["cost"]).remove(0),
    };
    let rows = [
        (cost, Some((ObjectReference::to(pool.as_ref()), reason::NO_EFFECT))),
        (split("default/web"), Some((ObjectReference::to(web.as_ref()), reason::INVALID_SPLIT_ANNOTATION))),
        (unclaimed, Some((ObjectReference::to(node.as_ref()), reason::NODE_CLAIM_MISSING))),
        (expire_after, Some((ObjectReference::to(claim.as_ref()), reason::INVALID_FIELD))),
        (consolidate_after, Some((ObjectReference::to(pool.as_ref()), reason::DISRUPTION_INVALID))),
        (idle, Some((ObjectReference::to(&budget("one")), reason::SELECTS_NOTHING))),
        // The pod is gone.
        (split("default/gone"), None),
        (Problem::Usage { node: name(), others: 0, why: UsageError::Stale }, None),
        // No pod waits for a node.
        (Problem::NoCatalogue { pool: "default".to_owned(), class: "default".to_owned() }, None),
    ];
    for (problem, expected) in rows {
        let expected = expected.map(|(object, reason)| Event::warning(object, reason, problem.to_string()));
        let found = notes(&index, &SnapshotResult { problems: vec![problem], ..SnapshotResult::default() });
        assert_eq!(found, Vec::from_iter(expected));
    }
}

#[test]
fn notes_report_missing_types_when_a_pod_is_pending() {
    let problems = vec![Problem::NoCatalogue { pool: "default".to_owned(), class: "default".to_owned() }];
    let snapshot = Snapshot { pods: vec![planner::Pod::default()], ..Snapshot::default() };
    let reported = notes(&index(), &SnapshotResult { snapshot, problems, ..SnapshotResult::default() });
    assert_eq!(reported.iter().map(Event::reason).collect::<Vec<_>>(), [reason::NO_COMPATIBLE_INSTANCE_TYPES]);
}

#[test]
fn notes_report_unevictable_pods_and_samples_count_them() {
    let index = index();
    let why = Unevictable::Several(vec!["default/one".to_owned(), "default/two".to_owned()]);
    let problem = Problem::NeverEvicted { pod: "default/web".to_owned(), others: 1, why: why.clone() };
    let held = |pod: &str| NeverEvicted { pod: pod.to_owned(), pool: Some("default".to_owned()), why: why.clone() };
    let pools = ["default", "other"].map(|name| Pool { name: name.to_owned(), ..Pool::default() });
    let built = SnapshotResult {
        snapshot: Snapshot { pools: pools.into(), ..Snapshot::default() },
        problems: vec![problem.clone()],
        never_evicted: ["default/web", "default/gone"].map(held).into(),
        ..SnapshotResult::default()
    };
    let of_budget =
        |name| Event::warning(ObjectReference::to(&budget(name)), reason::NEVER_EVICTED, problem.to_string());
    let web = ObjectReference::to(index.pods.values().next().unwrap().as_ref());
    let message = format!("Pod can never be evicted, so its node cannot be disrupted: {why}");
    let of_pod = Event::warning(web, reason::NEVER_EVICTED, message);
    assert_eq!(notes(&index, &built), [of_budget("one"), of_budget("two"), of_pod]);
    let pool = |series: Series| series.labels.into_iter().map(|(_, value)| value).collect::<String>();
    let counts: Vec<(String, f64)> = samples(&built).into_iter().map(|it| (pool(it.series), it.value)).collect();
    assert_eq!(counts, [("default".to_owned(), 2.0), ("other".to_owned(), 0.0)]);
}

#[test]
fn notes_report_settings_without_effect_of_classes_and_overlays() {
    let mut index = index();
    let class = class(&json!({"metadata": {"name": "default", "annotations": {"kerf.sh/agnet": "enabled"}}}));
    let overlay = overlay(&json!({"metadata": {"name": "cheap", "annotations": {"kerf.sh/node-fee": "1"}}}));
    let objects = [ObjectReference::to(class.as_ref()), ObjectReference::to(overlay.as_ref())];
    drop(index.apply(class.as_ref().clone(), Timestamp::UNIX_EPOCH, true));
    drop(index.apply(overlay.as_ref().clone(), Timestamp::UNIX_EPOCH, true));
    let found = notes(&index, &SnapshotResult::default());
    let messages = [
        "EC2NodeClass default: metadata.annotations[kerf.sh/agnet] has no effect: did you mean kerf.sh/agent?",
        "NodeOverlay cheap: metadata.annotations[kerf.sh/node-fee] has no effect: it is an annotation of NodePools (metadata)",
    ];
    let expected: Vec<Event> = objects
        .into_iter()
        .zip(messages)
        .map(|(object, message)| Event::warning(object, reason::NO_EFFECT, message.to_owned()))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn notes_report_requests_to_the_emulation_on_the_real_ec2() {
    let requested = json!({"metadata": {"annotations": {"kerf.sh/emulated-shortage": "spot"}}});
    let mut index = index();
    drop(index.apply(class(&requested).as_ref().clone(), Timestamp::UNIX_EPOCH, true));
    let messages = |index: &Index| -> Vec<String> {
        notes(index, &SnapshotResult::default()).iter().map(|note| note.message().to_owned()).collect()
    };
    let expected = "EC2NodeClass default: metadata.annotations[kerf.sh/emulated-shortage] has no effect: EC2 is emulated only \
                    with kerf.provider=kwok of the chart; remove it";
    assert_eq!(messages(&index), [expected]);
    index.is_ec2_emulated = true;
    assert_eq!(messages(&index), <[String; 0]>::default());
}
