//! Small recordings, and what their replay does.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::NodePool;
use api::objects::{Pod, PodDisruptionBudget};
use jiff::{SignedDuration, Timestamp};
use planner::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering, Resources};
use serde_json::{Value, json};
use snapshot::{Objects, Settings};

use super::{Replay, Rules};
use crate::figures::{Figures, Market};
use crate::history::HistoryBuilder;
use crate::pace::Pace;

const GIBIBYTE: i64 = 1 << 30;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_780_000_000 + second).unwrap()
}

/// Returns a type with this number of cores and four times as many gibibytes, at 50 thousandths of a dollar per core.
fn kind(name: &str, cores: i64) -> InstanceType {
    let amounts = [(Resources::CPU, cores * 1000), (Resources::MEMORY, cores * 4 * GIBIBYTE), (Resources::PODS, 50)];
    let offering = Offering {
        zone: "a".to_owned(),
        capacity_type: CapacityType::OnDemand,
        price: MicroDollars(cores * 50_000),
        premium: MicroDollars(0),
        available: true,
        labels: BTreeMap::new(),
        reservation: None,
    };
    InstanceType {
        name: name.to_owned(),
        capacity: Resources::from_iter(amounts),
        allocatable: Resources::from_iter(amounts),
        offerings: vec![offering],
        ..InstanceType::default()
    }
}

fn market() -> Market {
    let types = vec![kind("large", 8), kind("small", 2)];
    let catalogue = Catalogue { name: "default".to_owned(), types, ..Catalogue::default() };
    Market { catalogues: vec![(at(0), BTreeMap::from([("default".to_owned(), Arc::new(catalogue))]))] }
}

fn pool(change: &Value) -> Objects {
    let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
    let mut pool = json!({
        "metadata": {"name": "general"},
        "spec": {
            "template": {"metadata": {}, "spec": {"nodeClassRef": class, "requirements": [], "expireAfter": "Never"}},
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]},
        },
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Ready", "message": ""}]},
    });
    for (pointer, value) in change.as_object().into_iter().flatten() {
        *pool.pointer_mut(pointer).unwrap() = value.clone();
    }
    let pool: NodePool = serde_json::from_value(pool).unwrap();
    Objects { pools: vec![Arc::new(pool)], ..Objects::default() }
}

/// Returns a pod of workload `web`.
fn pod(name: &str, cores: i64, created: i64) -> Objects {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "namespace": "shop", "name": name, "uid": name, "creationTimestamp": at(created).to_string(), "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": true}],
        },
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cores.to_string(), "memory": "1Gi"}}}]},
        "status": {"phase": "Pending"},
    }))
    .unwrap();
    Objects { pods: vec![Arc::new(pod)], ..Objects::default() }
}

fn budget(available: i64) -> Objects {
    let budget: PodDisruptionBudget = serde_json::from_value(json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"minAvailable": available, "selector": {"matchLabels": {"app": "web"}}},
    }))
    .unwrap();
    Objects { budgets: vec![Arc::new(budget)], ..Objects::default() }
}

/// Returns a recording that begins with these objects.
fn recording(objects: impl IntoIterator<Item = Objects>) -> HistoryBuilder {
    let mut builder = HistoryBuilder::default();
    objects.into_iter().for_each(|objects| builder.set(at(0), objects));
    builder
}

/// Replays a recording until a second.
fn replayed(builder: HistoryBuilder, until: i64) -> Figures {
    let history = builder.finish(at(until));
    let (market, pace) = (market(), Pace::default());
    let replay = Replay { history: &history, market: &market, settings: Settings::default(), rules: Rules::Kerf, pace };
    let figures = replay.run(&mut |_| {});
    assert_eq!(replay.run(&mut |_| {}), figures, "a second replay differs");
    figures
}

/// Returns the number of removed nodes by reason.
fn removed(figures: &Figures) -> Vec<(&str, usize)> {
    figures.disrupted.iter().map(|(reason, count)| (reason.as_str(), *count)).collect()
}

#[test]
fn replay_launches_a_node_for_pods_that_arrive_together() {
    let mut builder = recording([pool(&json!({}))]);
    builder.set(at(10), pod("a", 1, 10));
    builder.set(at(10), pod("b", 1, 10));
    let figures = replayed(builder, 3600);
    let starts = Pace::default().launch + Pace::default().boot;
    let waits = (starts + SignedDuration::from_secs(1)).as_millis();
    assert_eq!((figures.launches, figures.most_nodes, figures.pending, figures.pods), (1, 1, 0, 2));
    assert_eq!(i128::from(figures.wait_p99), waits);
    // The node is paid from its launch at second 13 on.
    assert_eq!((figures.node_seconds, figures.cost), (3600 - 13, 100_000 * (3600 - 13) / 3600));
}

#[test]
fn replay_removes_nodes_that_are_not_needed() {
    let mut builder = recording([pool(&json!({}))]);
    for number in 0..4 {
        builder.set(at(10), pod(&format!("pod-{number}"), 2, 10));
    }
    for number in 0..3 {
        builder.remove(at(600), "Pod", "shop", &format!("pod-{number}"));
    }
    let figures = replayed(builder, 3600);
    assert_eq!((figures.pending, figures.most_nodes <= 5), (0, true), "{figures:?}");
    let last = figures.points.last().unwrap();
    assert_eq!((last.nodes, last.rate), (1, 100_000), "one small node remains: {figures:?}");
    assert!(!figures.disrupted.is_empty(), "{figures:?}");
}

#[test]
fn replay_respects_limits_and_counts_pods_without_a_node() {
    let mut limited = pool(&json!({}));
    Arc::make_mut(&mut limited.pools[0]).spec.limits = Some(BTreeMap::from([("nodes".to_owned(), "0".into())]));
    let mut builder = recording([limited]);
    builder.set(at(10), pod("a", 1, 10));
    let figures = replayed(builder, 600);
    assert_eq!((figures.launches, figures.pending, figures.cost), (0, 1, 0));
}

#[test]
fn replay_replaces_expired_nodes_when_budgets_allow_it() {
    for (available, expected) in [(0, vec![("Expired", 1)]), (1, Vec::new())] {
        let expiring = pool(&json!({"/spec/template/spec/expireAfter": "20m"}));
        let mut builder = recording([expiring, budget(available)]);
        builder.set(at(10), pod("a", 1, 10));
        let figures = replayed(builder, 1_500);
        assert_eq!(removed(&figures), expected, "minAvailable: {available}");
        assert_eq!((figures.evicted, figures.pending), (expected.len(), 0), "minAvailable: {available}");
        assert_eq!(figures.launches, 1 + expected.len(), "the replacement comes first");
    }
}

#[test]
fn replay_replaces_nodes_whose_nodepool_has_changed() {
    let mut builder = recording([pool(&json!({}))]);
    builder.set(at(10), pod("a", 1, 10));
    builder.set(at(600), pool(&json!({"/spec/template/metadata": {"labels": {"team": "web"}}})));
    let figures = replayed(builder, 1200);
    assert_eq!(removed(&figures), [("Drifted", 1)]);
    assert_eq!((figures.launches, figures.evicted, figures.pending), (2, 1, 0));
}

/// Karpenter knows no limit of the cost, so its side of a comparison has none.
#[test]
fn replay_by_the_rules_of_karpenter_ignores_annotations_of_kerf() {
    // A minute of a leap year is never in the recording.
    for (key, value) in [("kerf.sh/max-cost-per-hour", "0"), ("kerf.sh/active-times", "0 0 29 2 * for 1m")] {
        let mut limited = pool(&json!({}));
        let annotations = [(key.to_owned(), value.to_owned())].into();
        Arc::make_mut(&mut limited.pools[0]).metadata.annotations = Some(annotations);
        let mut builder = recording([limited]);
        builder.set(at(10), pod("a", 1, 10));
        let history = builder.finish(at(600));
        let (market, pace, settings) = (market(), Pace::default(), Settings::default());
        let launches = [Rules::Kerf, Rules::Karpenter].map(|rules| {
            let replay = Replay { history: &history, market: &market, settings, rules, pace };
            replay.run(&mut |_| {}).launches
        });
        assert_eq!(launches, [0, 1], "{key}");
    }
}
