//! Metrics of a thousand nodes in ten NodePools with twenty thousand pods: the number of series, and sums that match.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::objects::{Namespace, Node, Pod};
use api::{EC2NodeClass, NodeClaim, NodePool};
use controller::metrics::collector::{CatalogueSource, ClusterMetrics};
use controller::metrics::detail::MetricsDetail;
use controller::metrics::table;
use controller::state::index::Index;
use controller::state::plans::pod_decisions::PodDecisions;
use daemon::metric::{Metrics, Series};
use jiff::{SignedDuration, Timestamp};
use planner::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering, Resources};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const NODES: usize = 1000;
const PODS_A_NODE: usize = 20;
const POOLS: usize = 10;
const ZONES: [&str; 3] = ["us-west-2a", "us-west-2b", "us-west-2c"];
const MOST_SERIES: usize = 2000;

/// The same catalogue for all, if there is one.
pub(super) struct Known(pub(super) Option<Arc<Catalogue>>);

impl CatalogueSource for Known {
    fn catalogue_of_claim(&self, _: &NodeClaim) -> Option<Arc<Catalogue>> {
        self.0.clone()
    }

    fn catalogue_of_class(&self, _: &str) -> Option<Arc<Catalogue>> {
        self.0.clone()
    }
}

/// Updates all metrics of a fleet.
pub fn collect(
    fleet: &ClusterMetrics,
    index: &Index,
    decisions: &PodDecisions,
    catalogues: &dyn CatalogueSource,
    metrics: &Metrics,
    now: Timestamp,
) {
    fleet.publish(metrics, fleet.observe(index, decisions, catalogues, metrics, now));
}

fn aggregated(since: Timestamp) -> ClusterMetrics {
    ClusterMetrics::new(MetricsDetail::Aggregated, true, since)
}

pub(super) fn made<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

fn capacity_type(number: usize) -> CapacityType {
    if number.is_multiple_of(3) { CapacityType::OnDemand } else { CapacityType::Spot }
}

/// Returns sixty instance types, each with an on-demand and a spot offering in every zone. Type number N costs N + 1 cents per
/// hour.
pub(super) fn catalogue() -> Catalogue {
    let kind = |number: usize| {
        let price = MicroDollars(10_000 * i64::try_from(number + 1).unwrap());
        let both = [CapacityType::OnDemand, CapacityType::Spot];
        let offering = |(zone, capacity_type): (&str, CapacityType)| Offering {
            zone: zone.to_owned(),
            capacity_type,
            price,
            premium: MicroDollars(0),
            available: true,
            labels: BTreeMap::new(),
            reservation: None,
        };
        let mut capacity = Resources::default();
        capacity.set("cpu", 8000);
        capacity.set("memory", 32 << 30);
        InstanceType {
            name: name_of(number),
            capacity: capacity.clone(),
            allocatable: capacity,
            offerings: ZONES.into_iter().flat_map(|zone| both.map(|it| (zone, it))).map(offering).collect(),
            ..InstanceType::default()
        }
    };
    Catalogue { name: "default".to_owned(), types: (0..60).map(kind).collect(), ..Catalogue::default() }
}

/// Returns the type number of a node. Every NodePool has most types, some of them several times.
fn type_of(number: usize) -> usize {
    (number * 7 + number / 60) % 60
}

fn name_of(number: usize) -> String {
    format!("m{number:02}.xlarge")
}

fn index() -> Index {
    index_of(NODES)
}

/// Returns the NodePools, their EC2NodeClass and this many nodes with their pods.
pub(super) fn index_of(nodes: usize) -> Index {
    let mut index = Index::default();
    (0..POOLS).for_each(|pool| put_pool(&mut index, pool, &json!({"cpu": "10000"})));
    let class = json!({
        "apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "default", "uid": "class"},
        "spec": {"amiSelectorTerms": [], "subnetSelectorTerms": [], "securityGroupSelectorTerms": []},
        "status": {"conditions": [condition("Ready")]},
    });
    drop(index.apply(made::<EC2NodeClass>(class), at(0), true));
    (0..nodes).for_each(|number| put_node(&mut index, number));
    index
}

/// Adds a NodePool. One with other limits is another object of the same name.
pub(super) fn put_pool(index: &mut Index, pool: usize, limits: &Value) {
    let name = format!("pool-{pool}");
    let object = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": name, "uid": format!("{name} {limits}")},
        "spec": {"limits": limits, "template": {"spec": {"nodeClassRef": class_ref(), "requirements": []}}},
        "status": {"resources": {"cpu": "800", "memory": "3200Gi"}, "conditions": [condition("Ready")]},
    });
    drop(index.apply(made::<NodePool>(object), at(0), true));
}

fn class_ref() -> Value {
    json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"})
}

fn condition(type_: &str) -> Value {
    json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": at(5).to_string()})
}

pub(super) fn put_node(index: &mut Index, number: usize) {
    let (name, provider) = (format!("node-{number}"), format!("aws:///zone/i-{number}"));
    let labels = json!({
        "karpenter.sh/nodepool": format!("pool-{}", number % POOLS),
        "node.kubernetes.io/instance-type": name_of(type_of(number)),
        "karpenter.sh/capacity-type": capacity_type(number).as_str(),
        "topology.kubernetes.io/zone": ZONES[number % ZONES.len()],
    });
    let conditions: Vec<Value> = ["Launched", "Registered", "Initialized", "Ready"].map(condition).into();
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("claim-{number}"), "uid": format!("claim-{number}"), "labels": labels},
        "spec": {"requirements": [], "nodeClassRef": class_ref()},
        "status": {"providerID": provider, "nodeName": name, "conditions": conditions},
    });
    drop(index.apply(made::<NodeClaim>(claim), at(0), true));
    let allocatable = json!({"cpu": "7500m", "memory": "30Gi", "pods": "58", "ephemeral-storage": "80Gi"});
    let node = json!({
        "metadata": {"name": name, "uid": name, "labels": labels, "creationTimestamp": at(0).to_string()},
        "spec": {"providerID": provider},
        "status": {
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "58", "ephemeral-storage": "100Gi"},
            "allocatable": allocatable, "conditions": [condition("Ready"), condition("StorageReady")],
        },
    });
    drop(index.apply(made::<Node>(node), at(0), true));
    (0..PODS_A_NODE).for_each(|pod| put_pod(index, &name, number * PODS_A_NODE + pod));
}

/// Adds a pod. Every twentieth pod is pending; the others were bound after 10 s and ready after 30 s.
pub(super) fn put_pod(index: &mut Index, node: &str, number: usize) {
    let waits = number.is_multiple_of(20);
    let workload = format!("app-{}", number % 700);
    let reached =
        |type_: &str, seconds| json!({"type": type_, "status": "True", "lastTransitionTime": at(seconds).to_string()});
    let conditions = if waits { json!([]) } else { json!([reached("PodScheduled", 110), reached("Ready", 130)]) };
    let pod = json!({
        "metadata": {
            "name": format!("pod-{number}"), "namespace": format!("team-{}", number % 30), "uid": format!("pod-{number}"),
            "creationTimestamp": at(100).to_string(), "labels": {"pod-template-hash": "abc"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{workload}-abc"), "uid": workload, "controller": true,
            }],
        },
        "spec": {
            "nodeName": if waits { "" } else { node },
            "containers": [{"name": "a", "resources": {
                "requests": {"cpu": "200m", "memory": "512Mi"}, "limits": {"memory": "1Gi"},
            }}],
        },
        "status": {"phase": if waits { "Pending" } else { "Running" }, "conditions": conditions},
    });
    drop(index.apply(made::<Pod>(pod), at(0), true));
}

/// Returns all values of the series with this name.
pub(super) fn values(text: &str, name: &str) -> Vec<f64> {
    let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']));
    text.lines().filter(of_name).map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-6 * one.abs().max(other.abs())
}

#[test]
fn metrics_have_under_2000_series_with_1000_nodes() {
    let (index, catalogue, metrics) = (index(), Arc::new(catalogue()), Metrics::new(&table()));
    let prices = Known(Some(catalogue));
    let (fleet, decisions) = (aggregated(at(50)), PodDecisions::new(at(50)));
    collect(&fleet, &index, &decisions, &prices, &metrics, at(400));
    // Counters and histograms get samples too: for each NodePool, and for two values of every other label.
    for metric in table() {
        for (pool, word) in (0..POOLS).flat_map(|pool| ["x", "y"].map(|word| (format!("pool-{pool}"), word))) {
            let label = |name: &&'static str| match *name {
                "nodepool" => pool.clone(),
                "batcher" => "create_fleet".to_owned(),
                "controller" => "provisioner".to_owned(),
                _ => word.to_owned(),
            };
            let labels = metric.labels.iter().map(|name| (*name, label(name))).collect();
            let series = Series { name: metric.name, labels };
            metrics.add_to_series(&series, 1.0);
            metrics.observe_series(&series, 1.0);
        }
    }
    let text = metrics.render();
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    println!("{series} series of {NODES} nodes and {} pods", NODES * PODS_A_NODE);
    assert!(series < MOST_SERIES, "{series} series");
    assert!(series > 500, "only {series} series: nothing was told");
}

/// A limit of the cost is reported as that of a resource, so that the alert on limits covers it.
#[test]
fn limit_of_the_cost_is_reported_with_its_usage() {
    let (mut index, metrics) = (index_of(POOLS), Metrics::new(&table()));
    put_pool(&mut index, 0, &json!({"cpu": "100", "kerf.sh/max-cost-per-hour": "2.5"}));
    let (fleet, decisions) = (aggregated(at(50)), PodDecisions::new(at(50)));
    collect(&fleet, &index, &decisions, &Known(Some(Arc::new(catalogue()))), &metrics, at(400));
    let text = metrics.render();
    let mut found: Vec<&str> = text.lines().filter(|line| line.contains("max-cost-per-hour")).collect();
    found.sort_unstable();
    let paid = 0.01 * (type_of(0) + 1) as f64;
    let labels = r#"{resource_type="kerf.sh/max-cost-per-hour",nodepool="pool-0"}"#;
    assert_eq!(
        found,
        [format!("karpenter_nodepools_limit{labels} 2.5"), format!("karpenter_nodepools_usage{labels} {paid}")]
    );
}

#[test]
fn cluster_metrics_add_up_to_fleet_totals() {
    let (index, catalogue, metrics) = (index(), Arc::new(catalogue()), Metrics::new(&table()));
    let prices = Known(Some(catalogue));
    let (fleet, decisions) = (aggregated(at(50)), PodDecisions::new(at(50)));
    collect(&fleet, &index, &decisions, &prices, &metrics, at(400));
    let text = metrics.render();
    let sum = |name: &str| values(&text, name).iter().sum::<f64>();
    let paid: f64 = (0..NODES).map(|number| 0.01 * (type_of(number) + 1) as f64).sum();
    assert!(
        close(sum("karpenter_nodepools_cost_total"), paid),
        "{} is not {paid}",
        sum("karpenter_nodepools_cost_total")
    );
    assert!(close(sum("kerf_workload_cost_dollars_per_hour"), paid), "workloads pay for all that is paid");
    let (pods, waiting) = ((NODES * PODS_A_NODE) as f64, NODES as f64);
    assert!(close(sum("kerf_workload_pods_count"), pods - waiting));
    assert!(close(sum("karpenter_pods_state"), pods));
    assert!(close(sum("kerf_nodes_count"), NODES as f64));
    assert!(text.contains(r#"instance_type="other""#), "more kinds than are told one by one");
    assert_eq!(values(&text, "kerf_workload_cost_dollars_per_hour").len(), 51, "fifty and other");
    assert_eq!(values(&text, "karpenter_pods_unbound_time_seconds"), [300.0; 10]);
    let use_of_cpu = 100.0 * (pods - waiting) * 0.2 / (NODES as f64 * 7.5);
    assert!(text.lines().any(|line| {
        line.strip_prefix(r#"karpenter_cluster_utilization_percent{resource_type="cpu"} "#)
            .is_some_and(|value| close(value.parse().unwrap(), use_of_cpu))
    }));
    for (name, each) in
        [("karpenter_pods_bound_duration_seconds", 10.0), ("karpenter_pods_startup_duration_seconds", 30.0)]
    {
        assert!(close(sum(&format!("{name}_sum")), (pods - waiting) * each), "{name}");
        assert!(close(sum(&format!("{name}_count")), pods - waiting), "{name}");
    }
    collect(&fleet, &index, &decisions, &prices, &metrics, at(460));
    let counted = values(&metrics.render(), "karpenter_pods_bound_duration_seconds_count");
    assert_eq!(counted, [pods - waiting], "no pod is measured twice");
}

/// A pod counts for its own label, else for that of its namespace.
#[test]
fn cluster_metrics_divide_the_cost_by_a_label() {
    let (mut index, metrics) = (index_of(3), Metrics::new(&table()));
    for (namespace, team) in [("team-1", "blue"), ("team-2", "red")] {
        let labelled = json!({"metadata": {"name": namespace, "labels": {"team": team}}});
        drop(index.apply(made::<Namespace>(labelled), at(0), true));
    }
    let own = json!({
        "metadata": {"name": "own", "namespace": "team-1", "uid": "own", "labels": {"team": "red"}},
        "spec": {"nodeName": "node-0", "containers": [{"name": "a", "resources": {"requests": {"cpu": "200m"}}}]},
        "status": {"phase": "Running"},
    });
    drop(index.apply(made::<Pod>(own), at(0), true));
    let fleet = aggregated(at(50)).with_cost_label(Some("team".to_owned()));
    collect(&fleet, &index, &PodDecisions::new(at(50)), &Known(Some(Arc::new(catalogue()))), &metrics, at(400));
    let text = metrics.render();
    let paid: f64 = (0..3).map(|number| 0.01 * (type_of(number) + 1) as f64).sum();
    let costs = values(&text, "kerf_label_cost_dollars_per_hour");
    assert!(costs.len() == 3 && close(costs.iter().sum(), paid), "{costs:?} of {paid}");
    for (team, pods) in [("blue", 2.0), ("red", 3.0), ("none", 53.0)] {
        let line = format!(r#"kerf_label_pods_count{{label="team",value="{team}"}} {pods:.1}"#);
        assert!(text.contains(&line), "{line} in {text}");
    }
}

#[test]
fn cluster_metrics_drop_deleted_and_count_unpriced_nodes() {
    let (mut index, metrics) = (Index::default(), Metrics::new(&table()));
    put_node(&mut index, 0);
    let (fleet, decisions) = (aggregated(at(500)), PodDecisions::new(at(500)));
    collect(&fleet, &index, &decisions, &Known(None), &metrics, at(600));
    let text = metrics.render();
    assert_eq!(values(&text, "kerf_nodes_unpriced_count"), [1.0]);
    assert_eq!(values(&text, "karpenter_nodes_current_lifetime_seconds"), [600.0]);
    assert!(values(&text, "karpenter_pods_bound_duration_seconds_count").iter().sum::<f64>() < 1.0, "from before");
    drop(index.delete::<Node>("node-0", at(600)));
    collect(&fleet, &index, &decisions, &Known(None), &metrics, at(660));
    let text = metrics.render();
    assert_eq!(values(&text, "kerf_nodes_unpriced_count"), [0.0]);
    for name in ["karpenter_nodes_allocatable", "kerf_nodes_count", "karpenter_nodes_current_lifetime_seconds"] {
        assert!(values(&text, name).is_empty(), "{name}");
    }
}

/// Returns a NodeClaim as a watch delivers it, with a condition whose last transition was at this second.
fn claim_with_condition(status: &str, turned: i64, deleted: Option<i64>) -> NodeClaim {
    let mut condition = condition("Launched");
    condition["status"] = json!(status);
    condition["lastTransitionTime"] = json!(at(turned).to_string());
    let mut claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "one", "uid": "one", "resourceVersion": deleted.unwrap_or(turned).to_string()},
        "spec": {"requirements": [], "nodeClassRef": class_ref()}, "status": {"conditions": [condition]},
    });
    if let Some(deleted) = deleted {
        claim["metadata"]["deletionTimestamp"] = json!(at(deleted).to_string());
    }
    made(claim)
}

#[test]
fn condition_metrics_count_transitions_and_terminations() {
    let (mut index, metrics) = (Index::default(), Metrics::new(&table()));
    let (fleet, decisions) = (aggregated(at(0)), PodDecisions::new(at(0)));
    drop(index.apply(claim_with_condition("Unknown", 10, None), at(10), true));
    drop(index.apply(claim_with_condition("True", 13, None), at(13), true));
    collect(&fleet, &index, &decisions, &Known(None), &metrics, at(20));
    collect(&fleet, &index, &decisions, &Known(None), &metrics, at(23));
    let text = metrics.render();
    for line in [
        r#"operator_nodeclaim_status_condition_count{type="Launched",status="True",reason="Launched"} 1.0"#,
        r#"operator_nodeclaim_status_condition_current_status_seconds{type="Launched",status="True",reason="Launched"} 10.0"#,
        r#"operator_nodeclaim_status_condition_transitions_total{type="Launched",status="Unknown",reason="Launched"} 1.0"#,
        r#"operator_nodeclaim_status_condition_transitions_total{type="Launched",status="True",reason="Launched"} 1.0"#,
        r#"operator_nodeclaim_status_condition_transition_seconds_sum{type="Launched",status="Unknown"} 3.0"#,
        "operator_nodeclaim_termination_current_time_seconds{} 0.0",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    drop(index.apply(claim_with_condition("True", 13, Some(30)), at(30), true));
    collect(&fleet, &index, &decisions, &Known(None), &metrics, at(34));
    assert!(metrics.render().contains("operator_nodeclaim_termination_current_time_seconds{} 4.0"));
    drop(index.delete::<NodeClaim>("one", at(37)));
    collect(&fleet, &index, &decisions, &Known(None), &metrics, at(40));
    let text = metrics.render();
    assert_eq!(values(&text, "operator_nodeclaim_termination_duration_seconds_sum"), [7.0]);
    assert_eq!(values(&text, "operator_nodeclaim_termination_current_time_seconds"), [0.0]);
    assert_eq!(values(&text, "operator_nodeclaim_status_condition_count"), [0.0; 0], "it is gone");
}

#[test]
fn pod_metrics_start_at_the_plan_that_placed_the_pod() {
    let (mut index, metrics) = (Index::default(), Metrics::new(&table()));
    let (fleet, decisions) = (aggregated(at(0)), PodDecisions::new(at(0)));
    // Pod 20 is pending; pod 1 was bound at 110 and ready at 130.
    [1, 20].into_iter().for_each(|number| put_pod(&mut index, "node-0", number));
    let waiting = |number: i64| planner::Pod {
        uid: format!("pod-{number}"),
        created: planner::Millis(100_000),
        ..planner::Pod::default()
    };
    collect(&fleet, &index, &decisions, &Known(None), &metrics, at(101));
    assert_eq!(values(&metrics.render(), "karpenter_pods_provisioning_scheduling_undecided_time_seconds"), [1.0]);
    let (metrics, fleet) = (Metrics::new(&table()), aggregated(at(0)));
    let snapshot = planner::Snapshot { pods: vec![waiting(1), waiting(20)], ..planner::Snapshot::default() };
    let place = || planner::PodVerdict::Existing {
        node: "node-0".to_owned(),
        why: planner::PlacementReason::Room,
        dropped: Vec::new(),
    };
    let report = planner::Report { pods: vec![place(), place()], ..planner::Report::default() };
    decisions.note(&snapshot, &planner::Plan { report, ..planner::Plan::default() }, &metrics, at(104));
    collect(&fleet, &index, &decisions, &Known(None), &metrics, at(140));
    let text = metrics.render();
    for (name, seconds) in [
        ("karpenter_pods_scheduling_decision_duration_seconds_sum", 8.0),
        ("karpenter_pods_provisioning_bound_duration_seconds_sum", 6.0),
        ("karpenter_pods_provisioning_startup_duration_seconds_sum", 26.0),
        ("karpenter_pods_provisioning_unbound_time_seconds", 36.0),
        ("karpenter_pods_provisioning_unstarted_time_seconds", 36.0),
    ] {
        assert_eq!(values(&text, name), [seconds], "{name}");
    }
    assert_eq!(values(&text, "karpenter_pods_provisioning_scheduling_undecided_time_seconds"), [0.0; 0]);
}
