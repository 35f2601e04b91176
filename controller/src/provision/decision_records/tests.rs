//! Tests of the records of verdicts: only news is recorded.

use api::decisions::{Decision, DecisionKind};
use planner::{Millis, NodeVerdict, Plan, Pod, PodVerdict, PoolMismatch, Report, Snapshot, UnschedulableReason};
use serde_json::json;
use snapshot::SnapshotResult;

use super::RecordedVerdicts;
use crate::fixture::{at, node};
use crate::state::index::Index;

fn refused(limited: bool) -> PodVerdict {
    let miss = match limited {
        true => UnschedulableReason::Limit { resource: "cpu".to_owned() },
        false => UnschedulableReason::SpotOnly,
    };
    PodVerdict::Unschedulable { pools: vec![PoolMismatch { pool: "general".to_owned(), miss }].into() }
}

/// Returns the records of a plan at this second.
fn news(
    known: &mut RecordedVerdicts,
    second: i64,
    pods: &[(&str, PodVerdict)],
    nodes: Vec<NodeVerdict>,
) -> Vec<Decision> {
    let mut index = Index::default();
    drop(index.apply(
        node(&json!({"metadata": {"labels": {"karpenter.sh/nodepool": "general"}}})).as_ref().clone(),
        at(0),
        true,
    ));
    let pod = |name: &&str| Pod { uid: (*name).to_owned(), name: format!("shop/{name}"), ..Pod::default() };
    let snapshot = Snapshot {
        now: Millis(at(second).as_millisecond()),
        pods: pods.iter().map(|(name, _)| pod(name)).collect(),
        ..Snapshot::default()
    };
    let report = Report {
        pods: pods.iter().map(|(_, verdict)| verdict.clone()).collect(),
        nodes: nodes.into_iter().map(|verdict| ("node-1".to_owned(), verdict)).collect(),
        ..Report::default()
    };
    let built = SnapshotResult { snapshot, ..SnapshotResult::default() };
    known.news(&index, &built, &Plan { report, ..Plan::default() })
}

fn kinds(records: &[Decision]) -> Vec<(DecisionKind, &str, Vec<&str>)> {
    let names = records.iter().map(|record| record.pods.names.iter().chain(&record.nodes.names));
    let rows = records.iter().zip(names);
    rows.map(|(record, names)| (record.kind, record.reason.as_str(), names.map(String::as_str).collect())).collect()
}

#[test]
fn pods_are_recorded_once_for_each_reason() {
    let mut known = RecordedVerdicts::default();
    let both = [("a", refused(false)), ("b", refused(false))];
    let records = news(&mut known, 0, &both, Vec::new());
    assert_eq!(kinds(&records), [(DecisionKind::Unschedulable, "spot_only", vec!["shop/a", "shop/b"])]);
    assert!(records[0].message.starts_with("NodePool general: only spot is available"), "{}", records[0].message);
    assert_eq!(news(&mut known, 10, &both, Vec::new()), []);
    assert_eq!(
        news(&mut known, 20, &[("a", PodVerdict::Postponed), ("b", refused(true))], Vec::new())[0].reason,
        "limit"
    );
    assert_eq!(news(&mut known, 30, &both[..1], Vec::new()), [], "a postponed pod keeps its reason");
    assert_eq!(news(&mut known, 40, &[], Vec::new()), []);
    assert_eq!(news(&mut known, 50, &both[..1], Vec::new()).len(), 1, "the pod was away");
}

#[test]
fn nodes_are_recorded_for_a_new_reason_and_at_most_every_quarter_of_an_hour() {
    let mut known = RecordedVerdicts::default();
    let mut look = |second, verdict| news(&mut known, second, &[], vec![verdict]);
    let first = look(0, NodeVerdict::DoNotDisrupt);
    assert_eq!(kinds(&first), [(DecisionKind::Kept, "DisruptionBlocked", vec!["node-1"])]);
    assert!(first[0].nodepools.contains("general"));
    assert_eq!(look(10, NodeVerdict::UnknownPrice), [], "the last record is too recent");
    assert_eq!(look(900, NodeVerdict::DoNotDisrupt), [], "nothing is new");
    assert_eq!(look(910, NodeVerdict::Watched), [], "this verdict does not last");
    assert_eq!(look(920, NodeVerdict::UnknownPrice).len(), 1);
}
