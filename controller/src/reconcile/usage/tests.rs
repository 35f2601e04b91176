//! Tests of valid and of ignored NodeUsages.

use api::label;
use api::objects::{Node, NodeReport};
use daemon::metric::Metrics;
use jiff::Timestamp;
use serde_json::json;

use super::{decide, samples, view};
use crate::fixture::{at, node, words};
use crate::metrics::gauge_set::GaugeSet;
use crate::metrics::table;
use crate::reconcile::work::WorkItem;
use crate::state::index::Index;

const MINUTE: i64 = 60;

/// Returns a report of the node in [`crate::fixture`], measured this many seconds after its creation.
fn report(measured: i64, version: &str) -> NodeReport {
    let figures = json!({"p50": "1", "p95": "1500m", "p99": "2", "peak5m": "1", "peak1h": "1", "peak24h": "2"});
    let name = node(&json!({})).name().to_owned();
    let report = json!({
        "metadata": {"name": name, "uid": "usage-uid", "resourceVersion": version},
        "spec": {
            "instance": "i-1",
            "measuredAt": at(measured).to_string(), "since": at(0).to_string(),
            "cpu": figures, "memory": figures,
            "pressure": {"cpu": 250, "memory": 0, "memoryFull": 0, "io": 0, "ioFull": 0},
            "throttled": 0, "oomKills": 3,
            "histograms": {"cpu": "", "memory": "", "joint": ""}, "pods": "AQ",
        },
    });
    serde_json::from_value(report).unwrap()
}

fn index(measured: i64) -> Index {
    let mut index = Index::default();
    let of_a_pool = node(&json!({"metadata": {"labels": {label::NODEPOOL: "default"}}}));
    drop(index.apply(of_a_pool.as_ref().clone(), at(0), true));
    assert_eq!(index.apply(report(measured, "1"), at(0), true).work, [], "its node is there");
    index
}

fn known(index: &Index, now: Timestamp) -> bool {
    index.usage_of(&node(&json!({})), now).is_some()
}

#[test]
fn usage_of_returns_a_report_when_fresh_and_of_the_instance() {
    let index = index(1000);
    for (age, counts) in
        [(0, true), (15 * MINUTE - 1, true), (15 * MINUTE, false), (-MINUTE, true), (-5 * MINUTE, false)]
    {
        assert_eq!(known(&index, at(1000 + age)), counts, "{age} s old");
    }
    let other = node(&json!({"spec": {"providerID": "aws:///us-west-2a/i-2"}}));
    assert!(index.usage_of(&other, at(1000)).is_none(), "another machine has taken the name");
    let unknown = node(&json!({"spec": {"providerID": ""}}));
    assert!(index.usage_of(&unknown, at(1000)).is_none());
}

#[test]
fn decide_deletes_a_stale_report_when_its_node_is_gone() {
    let mut index = index(1000);
    let name = node(&json!({})).name().to_owned();
    let decide_at = |index: &Index, seconds| decide(&view(index, &name, at(seconds)).unwrap());
    assert!(decide_at(&index, 100_000).steps.is_empty(), "a node that says nothing keeps its last word");
    let gone = index.delete::<Node>(&name, at(1010));
    assert!(gone.work.contains(&WorkItem::Usage(name.clone())));
    let wait = decide_at(&index, 1010);
    assert_eq!((wait.steps.len(), wait.after.map(|after| after.as_secs())), (0, Some(890)));
    for (seconds, what) in [(1000 + 15 * MINUTE, "stale"), (900, "from the future")] {
        let decision = decide_at(&index, seconds);
        assert_eq!(words(&decision.steps), [format!("delete usage {name} (usage-uid)")], "{what}");
    }
    let late = index.apply(report(1020, "2"), at(1020), true);
    assert_eq!(late.work, [WorkItem::Usage(name.clone())], "one that comes after its node went is looked at too");
    drop(index.delete::<NodeReport>(&name, at(1030)));
    assert!(view(&index, &name, at(1030)).is_none());
}

#[test]
fn samples_export_only_valid_reports() {
    let (index, metrics, exported) = (index(1000), Metrics::new(&table()), GaugeSet::default());
    exported.replace(&metrics, samples(&index, at(1000)));
    let text = metrics.render();
    for line in [
        "kerf_node_usage_cpu_p95_cores{nodepool=\"default\"}",
        "nodepool=\"default\",resource=\"cpu\"} 0.25",
        "kerf_node_usage_reports_count{state=\"current\"} 1.0",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    exported.replace(&metrics, samples(&index, at(1000 + 15 * MINUTE)));
    let text = metrics.render();
    assert!(!text.contains("kerf_node_usage_cpu_p95_cores{"), "{text}");
    assert!(!text.contains("kerf_node_usage_pressure_ratio{"), "{text}");
    assert!(text.contains("kerf_node_usage_reports_count{state=\"ignored\"} 1.0"), "{text}");
}

#[test]
fn node_report_error_contains_the_field_when_invalid() {
    let good = json!({"metadata": {"name": "n"}, "spec": serde_json::to_value(spec()).unwrap()});
    assert!(serde_json::from_value::<NodeReport>(good.clone()).is_ok());
    for (field, value, exported) in [
        ("/spec/pods", "Ag", "pods"),
        ("/spec/histograms/cpu", "!", "histograms.cpu"),
        ("/spec/histograms/joint", "!", "histograms.joint"),
        ("/spec/cpu/p95", "many", "cpu"),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(field).unwrap() = json!(value);
        let error = serde_json::from_value::<NodeReport>(bad).unwrap_err().to_string();
        assert!(error.contains(exported), "{field}: {error}");
    }
}

fn spec() -> api::NodeUsageSpec {
    let figures = json!({"p50": "1", "p95": "1", "p99": "2", "peak5m": "1", "peak1h": "1", "peak24h": "2"});
    serde_json::from_value(json!({
        "instance": "i-1", "measuredAt": "2026-03-01T12:00:00Z", "since": "2026-03-01T12:00:00Z",
        "cpu": figures, "memory": figures, "throttled": 0, "oomKills": 0,
        "histograms": {"cpu": "", "memory": "", "joint": ""}, "pods": "AQ",
    }))
    .unwrap()
}
