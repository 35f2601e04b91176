//! Table tests of condition changes.

use serde_json::json;

use super::*;
use crate::names::condition::{DRIFTED, FALSE, INITIALIZED, LAUNCHED, READY, REGISTERED, TRUE, UNKNOWN};
use crate::resources::nodeclaim::NodeClaim;

const CREATED: i64 = 1_000;

/// Conditions and their new statuses, in order.
type Sets = &'static [(&'static str, &'static str)];

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn claim() -> NodeClaim {
    serde_json::from_value(json!({
        "metadata": { "name": "a", "generation": 1, "creationTimestamp": at(CREATED) },
        "spec": {
            "requirements": [],
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
        },
    }))
    .unwrap()
}

/// Returns one line for each condition: type, status, reason, second of its transition, generation.
fn lines(claim: &NodeClaim) -> Vec<String> {
    claim.conditions().iter().map(line).collect()
}

fn line(c: &Condition) -> String {
    let second = c.last_transition_time.0.as_second();
    let generation = c.observed_generation;
    format!("{}={} {} @{second} g{generation}", c.type_, c.status, c.reason)
}

fn ready(claim: &NodeClaim) -> &Condition {
    find(claim.conditions(), READY).unwrap()
}

#[test]
fn initialize_creates_conditions_at_creation_time() {
    let mut claim = claim();
    assert!(claim.initialize(at(2_000)));
    assert_eq!(
        lines(&claim),
        [
            "Launched=Unknown AwaitingReconciliation @1000 g1",
            "Registered=Unknown AwaitingReconciliation @1000 g1",
            "Initialized=Unknown AwaitingReconciliation @1000 g1",
            "Ready=Unknown ReconcilingDependents @1000 g1",
        ]
    );
    assert_eq!(ready(&claim).message, "Launched=Unknown, Registered=Unknown, Initialized=Unknown");
    assert!(!claim.initialize(at(3_000)));
}

#[test]
fn set_computes_ready_from_dependents() {
    let rows: [(Sets, &str, &str); 5] = [
        (&[(LAUNCHED, TRUE), (REGISTERED, TRUE), (INITIALIZED, TRUE)], "True Ready", ""),
        (&[(LAUNCHED, TRUE)], "Unknown ReconcilingDependents", "Registered=Unknown, Initialized=Unknown"),
        (
            &[(LAUNCHED, TRUE), (REGISTERED, FALSE)],
            "False UnhealthyDependents",
            "Registered=False, Initialized=Unknown",
        ),
        (
            &[(INITIALIZED, FALSE), (LAUNCHED, FALSE)],
            "False UnhealthyDependents",
            "Launched=False, Initialized=False, Registered=Unknown",
        ),
        (
            &[(DRIFTED, FALSE)],
            "Unknown ReconcilingDependents",
            "Launched=Unknown, Registered=Unknown, Initialized=Unknown",
        ),
    ];
    for (sets, status, message) in rows {
        let mut claim = claim();
        claim.initialize(at(CREATED));
        for ((type_, status), second) in sets.iter().zip(2_000..) {
            claim.set(type_, status, "Because", "", at(second));
        }
        let root = ready(&claim);
        assert_eq!(format!("{} {}", root.status, root.reason), status, "{sets:?}");
        assert_eq!(root.message, message, "{sets:?}");
    }
}

#[test]
fn set_changes_transition_time_only_with_status() {
    let mut claim = claim();
    claim.initialize(at(CREATED));
    assert!(claim.set_unknown(LAUNCHED, "LaunchFailed", "no capacity", at(2_000)));
    assert!(lines(&claim).contains(&"Launched=Unknown LaunchFailed @1000 g1".to_owned()));
    assert!(claim.set_true(LAUNCHED, at(3_000)));
    assert!(lines(&claim).contains(&"Launched=True Launched @3000 g1".to_owned()));
    assert!(!claim.set_true(LAUNCHED, at(4_000)));
    assert!(lines(&claim).contains(&"Launched=True Launched @3000 g1".to_owned()));
}

#[test]
fn ready_is_unknown_when_dependents_are_of_an_old_generation() {
    let mut claim = claim();
    for type_ in [LAUNCHED, REGISTERED, INITIALIZED] {
        claim.set_true(type_, at(2_000));
    }
    assert_eq!(ready(&claim).status, TRUE);
    claim.metadata.generation = Some(2);
    claim.set_true(LAUNCHED, at(3_000));
    assert_eq!(ready(&claim).status, UNKNOWN);
    assert_eq!(ready(&claim).message, "Registered=True, Initialized=True");
    claim.set_false(REGISTERED, "Because", "", at(4_000));
    assert_eq!(ready(&claim).status, FALSE);
}

#[test]
fn set_updates_all_generations_when_object_is_deleted() {
    let mut claim = claim();
    claim.initialize(at(CREATED));
    claim.metadata.generation = Some(2);
    claim.metadata.deletion_timestamp = Some(Time(at(2_000)));
    claim.set_true(DRIFTED, at(2_000));
    let generations: Vec<_> = claim.conditions().iter().map(|c| c.observed_generation).collect();
    assert_eq!(generations, [2; 5]);
}

#[test]
fn set_sorts_by_transition_time_with_root_last() {
    let mut claim = claim();
    claim.initialize(at(CREATED));
    claim.set_true(DRIFTED, at(2_000));
    claim.set_true(LAUNCHED, at(3_000));
    let types: Vec<_> = claim.conditions().iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(types, [REGISTERED, INITIALIZED, DRIFTED, LAUNCHED, READY]);
}

#[test]
fn clear_removes_only_independent_conditions() {
    let mut claim = claim();
    claim.initialize(at(CREATED));
    claim.set_true(DRIFTED, at(2_000));
    for type_ in [READY, LAUNCHED, "NoSuchCondition"] {
        assert!(!claim.clear(type_, at(3_000)), "{type_}");
    }
    assert!(claim.clear(DRIFTED, at(3_000)));
    let types: Vec<_> = claim.conditions().iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(types, [INITIALIZED, LAUNCHED, READY, REGISTERED]);
}

#[test]
fn set_truncates_transition_time_to_seconds() {
    let mut claim = claim();
    let now = Timestamp::from_millisecond(2_000_900).unwrap();
    claim.set_true(DRIFTED, now);
    let json = serde_json::to_value(claim.conditions()).unwrap();
    let drifted = json.as_array().unwrap().iter().find(|c| c["type"] == DRIFTED);
    assert_eq!(drifted.unwrap()["lastTransitionTime"], "1970-01-01T00:33:20Z");
}

#[test]
fn condition_deserializes_without_reason() {
    let json = json!({ "type": "Launched", "status": "True", "lastTransitionTime": at(1) });
    let condition: Condition = serde_json::from_value(json).unwrap();
    assert!(condition.is_true() && condition.reason.is_empty() && condition.message.is_empty());
}

#[test]
fn set_plain_sets_conditions_without_root() {
    let mut conditions = Vec::new();
    let desired = |type_, status, reason| DesiredCondition { type_, status, reason, message: "" };
    let rows = [
        (desired("A", FALSE, "One"), 1, 10, true, "A=False One @10 g1"),
        (desired("B", TRUE, "One"), 1, 11, true, "A=False One @10 g1, B=True One @11 g1"),
        (desired("A", FALSE, "One"), 1, 12, false, "A=False One @10 g1, B=True One @11 g1"),
        (desired("A", FALSE, "Two"), 1, 13, true, "A=False Two @10 g1, B=True One @11 g1"),
        (desired("A", TRUE, "Two"), 1, 14, true, "A=True Two @14 g1, B=True One @11 g1"),
        (desired("B", TRUE, "One"), 2, 15, true, "A=True Two @14 g1, B=True One @11 g2"),
    ];
    for (desired, generation, second, changed, expected) in rows {
        assert_eq!(set_plain(&mut conditions, desired, generation, at(second)), changed, "{expected}");
        let shown: Vec<_> = conditions.iter().map(line).collect();
        assert_eq!(shown.join(", "), expected);
    }
}
