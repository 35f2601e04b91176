//! Tests of the totals: savings of commands, time and cost of nodes, waits of pods.

use api::decisions::{Decision, DecisionKind, Names, NewFleet};
use daemon::metric::Metrics;
use planner::{FleetCost, MicroDollars, Plan, Pod, PodVerdict, Report, Snapshot};
use serde_json::json;

use super::{DecisionLog, WAITING};
use crate::fixture::{PROVIDER_ID, at, claim, pod};
use crate::metrics::table;
use crate::state::index::Index;
use crate::state::plans::pod_decisions::PodDecisions;

fn names(all: &[&str]) -> Names {
    all.iter().copied().collect()
}

fn command(kind: DecisionKind) -> Decision {
    Decision { nodeclaims: names(&["old-1", "old-2"]), ..Decision::new(at(0), kind, "Underutilized") }
}

fn started() -> Decision {
    Decision {
        pods: names(&["shop/a", "shop/b", "shop/c"]),
        replacements: names(&["new"]),
        saving_per_hour: Some(100),
        ..command(DecisionKind::Disrupting)
    }
}

fn of_new(kind: DecisionKind, price: i64) -> Decision {
    Decision { nodeclaims: names(&["new"]), price_per_hour: Some(price), ..Decision::new(at(0), kind, "replacement") }
}

#[test]
fn realised_saving_counts_the_prices_of_launched_instances() {
    let log = DecisionLog::default();
    log.sample(&Index::default(), &PodDecisions::new(at(0)), |_| None, at(0));
    log.record(started());
    log.record(of_new(DecisionKind::Created, 300));
    log.record(of_new(DecisionKind::Launched, 320));
    log.record(command(DecisionKind::Disrupted));
    log.record(started());
    log.record(command(DecisionKind::RolledBack));
    let summary = log.summary(at(900), false).unwrap();
    let totals = &summary.commands["Underutilized"];
    assert_eq!((totals.started, totals.rolled_back, totals.nodes, totals.pods), (2, 1, 4, 6));
    assert_eq!((totals.expected_saving, totals.realised_saving), (200, 80));
    assert_eq!((summary.launched, summary.from, summary.to), (1, at(0), at(900)));
}

#[test]
fn realised_saving_keeps_the_planned_price_of_an_unpriced_instance() {
    let log = DecisionLog::default();
    log.sample(&Index::default(), &PodDecisions::new(at(0)), |_| None, at(0));
    log.record(started());
    log.record(of_new(DecisionKind::Created, 300));
    log.record(Decision { price_per_hour: None, ..of_new(DecisionKind::Launched, 0) });
    log.record(command(DecisionKind::Disrupted));
    let summary = log.summary(at(900), false).unwrap();
    assert_eq!(summary.commands["Underutilized"].realised_saving, 100);
}

#[test]
fn summary_waits_for_the_end_of_its_period() {
    let log = DecisionLog::default();
    assert_eq!(log.summary(at(5000), true), None, "nothing was sampled");
    log.sample(&Index::default(), &PodDecisions::new(at(0)), |_| None, at(0));
    assert_eq!(log.summary(at(59), false), None);
    assert!(log.summary(at(59), true).is_some());
}

#[test]
fn first_periods_after_a_start_are_shorter() {
    let log = DecisionLog::default();
    log.sample(&Index::default(), &PodDecisions::new(at(0)), |_| None, at(0));
    let ends = |second: &i64| log.summary(at(*second), false).is_some();
    let periods: Vec<i64> = (0..4000).step_by(10).filter(ends).collect();
    assert_eq!(periods, [60, 120, 240, 480, 960, 1860, 2760, 3660]);
}

#[test]
fn sample_adds_the_cost_of_launched_nodeclaims() {
    let (log, mut index) = (DecisionLog::default(), Index::default());
    let labels = json!({"karpenter.sh/nodepool": "general", "node.kubernetes.io/instance-type": "m5.large"});
    let launched = claim(&json!({"metadata": {"labels": labels}, "status": {"providerID": PROVIDER_ID}}));
    let waiting = claim(&json!({"metadata": {"name": "waiting", "uid": "waiting"}, "status": {"providerID": ""}}));
    drop(index.apply(launched.as_ref().clone(), at(0), true));
    drop(index.apply(waiting.as_ref().clone(), at(0), true));
    let decisions = PodDecisions::new(at(0));
    let sample = |price: Option<i64>, second| log.sample(&index, &decisions, |_| price, at(second));
    sample(Some(3600), 0);
    sample(Some(3600), 60);
    sample(None, 120);
    // The process stood still for an hour: what happened then is unknown.
    sample(Some(3600), 3720);
    let summary = log.summary(at(3720), false).unwrap();
    let [nodes] = summary.nodes.as_slice() else { panic!("{:?}", summary.nodes) };
    assert_eq!((nodes.nodepool.as_str(), nodes.instance_type.as_str()), ("general", "m5.large"));
    assert_eq!((nodes.seconds, nodes.unpriced_seconds, nodes.cost), (420, 60, 360));
}

#[test]
fn sample_compares_the_nodes_with_the_new_fleet_once_it_is_known() {
    let (log, mut index) = (DecisionLog::default(), Index::default());
    let launched = claim(&json!({"status": {"providerID": PROVIDER_ID}}));
    drop(index.apply(launched.as_ref().clone(), at(0), true));
    let decisions = PodDecisions::new(at(0));
    let sample = |second| log.sample(&index, &decisions, |_| Some(7200), at(second));
    sample(0);
    sample(60);
    log.expect_fleet(FleetCost { nodes: 3, price: MicroDollars(3600), unplaced: 1 });
    sample(90);
    let summary = log.summary(at(90), true).unwrap();
    let expected = NewFleet {
        seconds: 30,
        node_seconds: 90,
        cost: 30,
        actual_node_seconds: 30,
        actual_cost: 60,
        unplaced_seconds: 30,
    };
    assert_eq!(summary.new_fleet, Some(expected));
    assert_eq!(summary.nodes.iter().map(|hours| hours.cost).sum::<i64>(), 180, "the cost of the whole time");
}

#[test]
fn waits_are_those_of_pods_that_a_plan_decided_about() {
    let (log, mut index, decisions) = (DecisionLog::default(), Index::default(), PodDecisions::new(at(0)));
    let bound = |name: &str, second| {
        let conditions =
            json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(second).to_string()}]);
        let metadata = json!({"name": name, "uid": name, "creationTimestamp": at(0).to_string()});
        pod(&json!({"metadata": metadata, "status": {"conditions": conditions}}))
    };
    for (name, second) in [("placed", 38), ("placed-by-scheduler", 1), ("of-earlier", -1000)] {
        drop(index.apply(bound(name, second).as_ref().clone(), at(40), true));
    }
    let pods = ["placed", "of-earlier"].map(|uid| Pod { uid: uid.to_owned(), ..Pod::default() });
    let verdicts = pods.iter().map(|_| PodVerdict::Unschedulable { pools: Vec::new().into() }).collect();
    let plan = Plan { report: Report { pods: verdicts, ..Report::default() }, ..Plan::default() };
    let snapshot = Snapshot { pods: pods.to_vec(), ..Snapshot::default() };
    decisions.note(&snapshot, &plan, &Metrics::new(&table()), at(1));
    for second in [40, 60, 300] {
        log.sample(&index, &decisions, |_| None, at(second));
    }
    let summary = log.summary(at(1000), false).unwrap();
    assert_eq!((summary.waits.count(), summary.waits.percentile(99)), (1, Some(40)));
}

#[test]
fn record_drops_the_oldest_when_none_is_stored() {
    let log = DecisionLog::default();
    log.sample(&Index::default(), &PodDecisions::new(at(0)), |_| None, at(0));
    for number in 0..=WAITING {
        log.record(Decision::new(at(number as i64), DecisionKind::Kept, "Unconsolidatable"));
    }
    let waiting = log.take();
    assert_eq!((waiting.len(), waiting[0].time), (WAITING, at(1)));
    assert_eq!(log.summary(at(900), false).unwrap().lost, 1);
    assert!(log.take().is_empty());
}
