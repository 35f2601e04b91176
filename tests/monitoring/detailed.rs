//! Metrics in Karpenter's detail: its names, kinds and labels, one series per node, pod and object, and no more than that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use api::NodeClaim;
use api::objects::{Node, Pod};
use controller::metrics::collector::ClusterMetrics;
use controller::metrics::detail::MetricsDetail;
use controller::state::index::Index;
use controller::state::plans::pod_decisions::PodDecisions;
use daemon::metric::{Description, Metrics};
use serde_json::json;

use super::fleet::{Known, at, catalogue, collect, index_of, made, put_node, put_pod, values};

const KARPENTER: MetricsDetail = MetricsDetail::Karpenter;

/// Returns the exported text of a scrape at second 400.
pub(super) fn scrape(index: &Index, detail: MetricsDetail, includes_state: bool) -> String {
    let metrics = Metrics::new(&detail.table());
    let fleet = ClusterMetrics::new(detail, includes_state, at(50));
    collect(&fleet, index, &PodDecisions::new(at(50)), &Known(Some(Arc::new(catalogue()))), &metrics, at(400));
    metrics.render()
}

/// Series of a text: name, labels and value.
pub(super) fn series(text: &str) -> Vec<(&str, BTreeMap<&str, &str>, &str)> {
    text.lines().filter(|line| !line.starts_with('#')).filter_map(parsed).collect()
}

fn parsed(line: &str) -> Option<(&str, BTreeMap<&str, &str>, &str)> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = series.split_once('{')?;
    let labels = labels.strip_suffix("\"}").unwrap_or_default();
    Some((name, labels.split("\",").filter_map(|pair| pair.split_once("=\"")).collect(), value))
}

/// Karpenter 1.14 registers these metrics; `operator_` ones by its library, of one kind each.
#[test]
fn karpenter_detail_has_all_names_kinds_and_labels_of_karpenter() {
    let table = KARPENTER.table();
    let facts = super::read("tests/monitoring/karpenter-1.14.csv");
    let mut wrong = Vec::new();
    for fact in facts.lines() {
        let [name, kind, labels] = fact.split(',').collect::<Vec<_>>()[..] else { panic!("{fact}") };
        let expected: BTreeSet<&str> = labels.split(' ').filter(|label| !label.is_empty()).collect();
        let found = table.iter().find(|metric| metric.name == name);
        let is_same = |metric: &&Description| {
            metric.kind.as_str() == kind && metric.labels.iter().copied().collect::<BTreeSet<_>>() == expected
        };
        if found.filter(is_same).is_none() {
            wrong.push(format!("{fact}\n  {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(facts.lines().filter(|fact| fact.starts_with("karpenter_")).count(), 72);
    let foreign = table.iter().filter(|metric| metric.name.starts_with("karpenter_"));
    assert_eq!(foreign.count(), 72, "a name with Karpenter's prefix is not Karpenter's");
}

#[test]
fn series_have_the_labels_of_their_table_in_each_detail() {
    let index = index_of(20);
    for detail in [MetricsDetail::Aggregated, KARPENTER] {
        let (table, text) = (detail.table(), scrape(&index, detail, true));
        for (name, labels, _) in series(&text) {
            let metric = table.iter().find(|metric| super::is_series_of(metric, name));
            let Some(metric) = metric else { panic!("{detail:?}: {name} is not in the table") };
            let found: BTreeSet<&str> = labels.keys().copied().filter(|it| *it != "le" && *it != "quantile").collect();
            assert_eq!(found, metric.labels.iter().copied().collect(), "{detail:?}: {name}");
        }
    }
}

#[test]
fn node_gauges_have_one_series_per_node_and_resource() {
    let mut index = index_of(20);
    let foreign = json!({
        "metadata": {"name": "foreign", "uid": "foreign", "labels": {"kubernetes.io/arch": "arm64"}},
        "status": {"allocatable": {"cpu": "2", "hugepages-2Mi": "0"}, "capacity": {"cpu": "2500m"}},
    });
    drop(index.apply(made::<Node>(foreign), at(0), true));
    let text = scrape(&index, KARPENTER, true);
    let all = series(&text);
    let of = |name: &str, node: &str, resource: &str| {
        let is_wanted = |labels: &BTreeMap<&str, &str>| {
            labels["node_name"] == node && labels.get("resource_type").is_none_or(|found| *found == resource)
        };
        let mut found = all.iter().filter(|(found, labels, _)| *found == name && is_wanted(labels));
        let (_, labels, value) = found.next().unwrap_or_else(|| panic!("{name} of {node} is missing"));
        assert!(found.next().is_none(), "{name} of {node} has two series");
        (labels.clone(), value.parse::<f64>().unwrap())
    };
    let (labels, cpu) = of("karpenter_nodes_allocatable", "node-3", "cpu");
    assert!((cpu - 7.5).abs() < 1e-9);
    for (label, value) in [("nodepool", "pool-3"), ("zone", "us-west-2a"), ("capacity_type", "on-demand")] {
        assert_eq!(labels[label], value);
    }
    assert_eq!((labels["managed"], labels["phase"], labels["instance_gpu_name"]), ("true", "", ""));
    let (labels, cpu) = of("karpenter_nodes_allocatable", "foreign", "cpu");
    assert_eq!((labels["managed"], labels["nodepool"], labels["arch"]), ("false", "", "arm64"));
    assert!((cpu - 2.0).abs() < 1e-9);
    assert!((of("karpenter_nodes_system_overhead", "foreign", "cpu").1 - 0.5).abs() < 1e-9);
    assert!(of("karpenter_nodes_allocatable", "foreign", "hugepages_2mi").1.abs() < 1e-9, "names as Karpenter's");
    assert!((of("karpenter_nodes_total_pod_requests", "node-3", "pods").1 - 19.0).abs() < 1e-9);
    assert!((of("karpenter_nodes_current_lifetime_seconds", "node-3", "").1 - 400.0).abs() < 1e-9);
    let pods = values(&text, "karpenter_nodes_current_lifetime_seconds").len();
    assert_eq!(pods, 20, "a node without a creation time has no age");
}

#[test]
fn pod_gauges_have_one_series_per_pod() {
    let mut index = index_of(2);
    put_node(&mut index, 3);
    let text = scrape(&index, KARPENTER, true);
    let line = "karpenter_pods_state{name=\"pod-1\",namespace=\"team-1\",\
                owner=\"/apis/apps/v1/namespaces/team-1/replicasets/app-1-abc\",node=\"node-0\",scheduled=\"true\",\
                nodepool=\"pool-0\",zone=\"us-west-2a\",arch=\"\",capacity_type=\"on-demand\",\
                instance_type=\"m00.xlarge\",phase=\"Running\",ready=\"true\",managed=\"true\"} 1.0";
    assert!(text.contains(line), "{line} is missing");
    assert_eq!(values(&text, "karpenter_pods_state"), [1.0; 60]);
    assert_eq!(values(&text, "karpenter_pods_unbound_time_seconds"), [300.0; 3], "each pending pod");
    // More pending pods than sums report.
    (0..15).for_each(|number| put_pod(&mut index, "", 1000 + 20 * number));
    assert_eq!(values(&scrape(&index, KARPENTER, true), "karpenter_pods_unbound_time_seconds").len(), 18);
    let sums = scrape(&index, MetricsDetail::Aggregated, true);
    assert_eq!(values(&sums, "karpenter_pods_unbound_time_seconds").len(), 10);
}

#[test]
fn pod_gauges_drop_deleted_pods() {
    let (mut index, metrics) = (Index::default(), Metrics::new(&KARPENTER.table()));
    let (fleet, decisions) = (ClusterMetrics::new(KARPENTER, true, at(0)), PodDecisions::new(at(0)));
    put_pod(&mut index, "", 20);
    collect(&fleet, &index, &decisions, &Known(None), &metrics, at(400));
    assert_eq!(values(&metrics.render(), "karpenter_pods_state"), [1.0]);
    drop(index.delete::<Pod>("team-20/pod-20", at(401)));
    collect(&fleet, &index, &decisions, &Known(None), &metrics, at(402));
    assert!(values(&metrics.render(), "karpenter_pods_state").is_empty());
}

#[test]
fn type_gauges_include_unused_types_only_in_karpenter_detail() {
    let index = index_of(3);
    let types = |detail| values(&scrape(&index, detail, true), "karpenter_cloudprovider_instance_type_cpu_cores").len();
    assert_eq!((types(MetricsDetail::Aggregated), types(KARPENTER)), (3, 60));
}

#[test]
fn condition_metrics_have_the_names_and_labels_of_objects() {
    let metrics = Metrics::new(&KARPENTER.table());
    let (mut index, fleet) = (Index::default(), ClusterMetrics::new(KARPENTER, true, at(0)));
    let claim = |status: &str, version: i64, deleted: Option<i64>| {
        let labels = json!({"karpenter.sh/nodepool": "blue", "karpenter.k8s.aws/ec2nodeclass": "default"});
        let mut claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": "one", "uid": "one", "resourceVersion": version.to_string(), "labels": labels},
            "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}},
            "status": {"conditions": [{
                "type": "Launched", "status": status, "reason": "Launched", "message": "",
                "lastTransitionTime": at(version).to_string(),
            }]},
        });
        if let Some(deleted) = deleted {
            claim["metadata"]["deletionTimestamp"] = json!(at(deleted).to_string());
        }
        made::<NodeClaim>(claim)
    };
    let scrape = |index: &Index, seconds| {
        collect(&fleet, index, &PodDecisions::new(at(0)), &Known(None), &metrics, at(seconds));
        metrics.render()
    };
    drop(index.apply(claim("Unknown", 10, None), at(10), true));
    drop(index.apply(claim("True", 13, None), at(13), true));
    let owner = r#"karpenter_k8s_aws_ec2nodeclass="default",karpenter_sh_nodepool="blue""#;
    let text = scrape(&index, 20);
    let object = r#"namespace="",name="one""#;
    let status = r#"type="Launched",status="True",reason="Launched""#;
    for line in [
        format!("operator_nodeclaim_status_condition_count{{{object},{status},{owner}}} 1.0"),
        format!("operator_nodeclaim_status_condition_current_status_seconds{{{object},{status},{owner}}} 7.0"),
        format!("operator_nodeclaim_status_condition_transitions_total{{{status},{owner}}} 1.0"),
        format!(
            r#"operator_nodeclaim_status_condition_transition_seconds_sum{{type="Launched",status="Unknown",{owner}}} 3.0"#
        ),
    ] {
        assert!(text.contains(&line), "{line} is missing in\n{text}");
    }
    assert!(values(&text, "operator_nodeclaim_termination_current_time_seconds").is_empty(), "nothing terminates");
    drop(index.apply(claim("True", 30, Some(30)), at(30), true));
    let line = format!("operator_nodeclaim_termination_current_time_seconds{{{object},{owner}}} 4.0");
    assert!(scrape(&index, 34).contains(&line), "{line}");
    drop(index.delete::<NodeClaim>("one", at(37)));
    let line = format!("operator_nodeclaim_termination_duration_seconds_sum{{{owner}}} 7.0");
    assert!(scrape(&index, 40).contains(&line), "{line}");
}

/// Karpenter keeps metrics of instance types and of EC2NodeClasses then, and the counter of unknown prices.
#[test]
fn cluster_metrics_without_state_have_only_types_and_classes() {
    let index = index_of(3);
    for detail in [MetricsDetail::Aggregated, KARPENTER] {
        let text = scrape(&index, detail, false);
        let names: BTreeSet<&str> = series(&text).into_iter().map(|(name, _, _)| name).collect();
        let is_kept = |name: &&str| {
            name.starts_with("karpenter_cloudprovider_instance_type_") || name.starts_with("operator_ec2nodeclass_")
        };
        assert!(names.iter().all(is_kept), "{detail:?}: {names:?}");
        assert_eq!(values(&text, "operator_ec2nodeclass_status_condition_count"), [1.0], "{detail:?}");
        assert!(!values(&text, "karpenter_cloudprovider_instance_type_offering_available").is_empty());
    }
}

#[test]
fn cost_errors_count_each_unpriced_node_once() {
    let (index, metrics) = (index_of(12), Metrics::new(&MetricsDetail::default().table()));
    let (fleet, decisions) = (ClusterMetrics::new(MetricsDetail::default(), true, at(0)), PodDecisions::new(at(0)));
    let errors = |catalogues: &Known, seconds| {
        collect(&fleet, &index, &decisions, catalogues, &metrics, at(seconds));
        values(&metrics.render(), "karpenter_nodepools_cost_tracker_errors_total").iter().sum::<f64>()
    };
    assert!((errors(&Known(None), 10) - 12.0).abs() < 1e-9);
    assert!((errors(&Known(None), 20) - 12.0).abs() < 1e-9, "the same nodes");
    assert!((errors(&Known(Some(Arc::new(catalogue()))), 30) - 12.0).abs() < 1e-9);
    assert!((errors(&Known(None), 40) - 24.0).abs() < 1e-9, "unknown again");
}

/// The number of series is Karpenter's: it grows with nodes and pods.
#[test]
fn karpenter_detail_exports_each_node_and_pod_of_1000_nodes() {
    let index = index_of(1000);
    let start = Instant::now();
    let text = scrape(&index, KARPENTER, true);
    let lines = text.lines().filter(|line| !line.starts_with('#')).count();
    println!("{lines} series, {} MB, {:?}", text.len() >> 20, start.elapsed());
    assert_eq!(values(&text, "karpenter_pods_state").len(), 20_000);
    assert_eq!(values(&text, "karpenter_nodes_current_lifetime_seconds").len(), 1000);
}
