//! Tests of the measured decisions, and of the number of pods by zone.

use std::sync::Arc;

use daemon::metric::Metrics;
use planner::{
    Millis, Operator, PlacementReason, Plan, Pod, PodShape, PodVerdict, Report, Requirement, Snapshot, label,
};

use super::{PodDecisions, by_zone};
use crate::fixture::at;
use crate::metrics::table;

fn pod(name: &str, created: i64) -> Pod {
    Pod {
        uid: name.to_owned(),
        name: format!("n/{name}"),
        created: Millis(at(created).as_millisecond()),
        ..Pod::default()
    }
}

fn plan(verdicts: Vec<PodVerdict>) -> Plan {
    Plan { report: Report { pods: verdicts, ..Report::default() }, ..Plan::default() }
}

fn place() -> PodVerdict {
    PodVerdict::Existing { node: "node".to_owned(), why: PlacementReason::Room, dropped: Vec::new() }
}

fn measured(metrics: &Metrics) -> Vec<String> {
    let text = metrics.render();
    let lines = text.lines().filter(|line| line.starts_with("karpenter_pods_scheduling_decision_duration_seconds"));
    lines.filter(|line| line.contains("_sum") || line.contains("_count")).map(str::to_owned).collect()
}

#[test]
fn note_measures_the_first_decision_and_keeps_the_first_place() {
    let (decisions, metrics) = (PodDecisions::new(at(0)), Metrics::new(&table()));
    let snapshot = Snapshot { pods: vec![pod("web", 10)], ..Snapshot::default() };
    assert!(!decisions.has("web"));
    decisions.note(&snapshot, &plan(vec![PodVerdict::Postponed]), &metrics, at(11));
    assert!(!decisions.has("web"), "nothing was decided");
    decisions.note(&snapshot, &plan(vec![PodVerdict::Unschedulable { pools: Vec::new().into() }]), &metrics, at(12));
    assert!(decisions.has("web"));
    assert_eq!(decisions.placed("web"), None);
    decisions.note(&snapshot, &plan(vec![place()]), &metrics, at(20));
    decisions.note(&snapshot, &plan(vec![place()]), &metrics, at(30));
    assert_eq!(decisions.placed("web"), Some(at(20)));
    let name = "karpenter_pods_scheduling_decision_duration_seconds";
    assert_eq!(measured(&metrics), [format!("{name}_sum{{}} 2.0"), format!("{name}_count{{}} 1")]);
}

#[test]
fn note_ignores_older_pods_and_drops_unseen_ones() {
    let (decisions, metrics) = (PodDecisions::new(at(100)), Metrics::new(&table()));
    let snapshot = Snapshot { pods: vec![pod("old", 10)], ..Snapshot::default() };
    decisions.note(&snapshot, &plan(vec![place()]), &metrics, at(101));
    assert_eq!(measured(&metrics), [""; 0]);
    assert_eq!(decisions.placed("old"), Some(at(101)));
    decisions.note(&Snapshot::default(), &plan(Vec::new()), &metrics, at(101 + 3600));
    assert!(!decisions.has("old"));
}

#[test]
fn by_zone_counts_pods_by_their_only_zone() {
    let within = |zones: &[&str]| Requirement::new(label::ZONE, Operator::In, zones.iter().map(|it| (*it).to_owned()));
    let shapes = [
        PodShape::default(),
        PodShape { selector: vec![within(&["a"])], ..PodShape::default() },
        PodShape { selector: vec![within(&["a", "b"])], ..PodShape::default() },
        PodShape { selector: vec![within(&["a", "b"])], affinity: vec![vec![within(&["b"])]], ..PodShape::default() },
        PodShape { affinity: vec![vec![within(&["a"])], vec![within(&["b"])]], ..PodShape::default() },
    ];
    let pods = (0..shapes.len()).map(|shape| Pod { shape, ..pod("web", 0) }).collect();
    let snapshot = Snapshot { pods, shapes: shapes.into_iter().map(Arc::new).collect(), ..Snapshot::default() };
    let counts: Vec<(String, u32)> = by_zone(&snapshot).into_iter().collect();
    assert_eq!(counts, [("a".to_owned(), 1), ("b".to_owned(), 1), ("flexible".to_owned(), 3)]);
}
