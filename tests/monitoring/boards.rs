//! Karpenter's own Grafana boards in Karpenter's detail: each expression uses existing metrics and labels, and returns data.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::Arc;

use api::objects::{Node, Pod};
use controller::metrics::collector::ClusterMetrics;
use controller::metrics::counters;
use controller::metrics::detail::MetricsDetail;
use controller::metrics::{self, ByReason};
use controller::reconcile::disruption::CommandKind;
use controller::state::index::Index;
use controller::state::plans::pod_decisions::PodDecisions;
use daemon::metric::Metrics;
use serde::Deserialize;
use serde_json::{Value, json};
use testbed::linters;

use super::fleet::{Known, at, catalogue, collect, index_of, made, put_pool};
use super::{ALWAYS, is_series_of, read, spoken};

/// Nodes of the cluster; its ten NodePools have three each.
const NODES: usize = 30;
/// Labels that Prometheus adds to every series, or that the kind of the metric has.
const ADDED: [&str; 2] = ["cluster", "quantile"];

#[derive(Deserialize)]
struct Panel {
    panel: String,
    #[serde(default)]
    by: Vec<String>,
    expr: String,
}

/// Returns the panels and their expressions, with a value for each variable.
fn panels() -> Vec<(String, String)> {
    let panels: Vec<Panel> = serde_saphyr::from_str(&read("tests/monitoring/karpenter-boards.yaml")).unwrap();
    let each = |Panel { panel, by, expr }: Panel| -> Vec<_> {
        let values = if by.is_empty() { vec![String::new()] } else { by };
        let chosen = |value: &String| {
            let filled = expr.replace("$distribution_filter", value);
            let variables = ["$nodepool", "$zone", "$arch", "$capacity_type", "$instance_type"];
            (format!("{panel} {value}"), variables.into_iter().fold(filled, |text, it| text.replace(it, ".*")))
        };
        values.iter().map(chosen).collect()
    };
    panels.into_iter().flat_map(each).collect()
}

#[test]
fn karpenters_boards_use_existing_metrics_and_labels() {
    let (panels, table) = (panels(), MetricsDetail::Karpenter.table());
    let answers = spoken(&panels);
    assert_eq!(answers.len(), panels.len());
    for ((panel, text), spoken) in panels.iter().zip(&answers) {
        let mut known: BTreeSet<&str> = ALWAYS.into_iter().chain(ADDED).collect();
        for selector in &spoken.selectors {
            let metric = table.iter().find(|metric| is_series_of(metric, &selector.metric));
            let metric = metric.unwrap_or_else(|| panic!("{panel}: there is no metric {}", selector.metric));
            known.extend(metric.labels);
            let unknown = selector.labels.iter().find(|label| !known.contains(label.as_str()));
            assert!(unknown.is_none(), "{panel}: {} has no label {unknown:?}", selector.metric);
        }
        let unknown = spoken.grouped.iter().find(|label| !known.contains(label.as_str()));
        assert!(unknown.is_none(), "{panel}: nothing in {text} has a label {unknown:?}");
    }
}

/// Returns the nodes, with a pod of a DaemonSet on each.
fn cluster() -> Index {
    let mut index = index_of(NODES);
    put_pool(&mut index, 0, &json!({"cpu": "10000", "memory": "40000Gi"}));
    for number in 0..NODES {
        let pod = json!({
            "metadata": {
                "name": format!("log-{number}"), "namespace": "kube-system", "uid": format!("log-{number}"),
                "creationTimestamp": at(100).to_string(),
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "log", "uid": "log", "controller": true,
                }],
            },
            "spec": {
                "nodeName": format!("node-{number}"),
                "containers": [{"name": "a", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}],
            },
            "status": {"phase": "Running"},
        });
        drop(index.apply(made::<Pod>(pod), at(0), true));
    }
    index
}

/// Returns a scrape of the controller after a command, a new node and a removed one.
fn scrape() -> String {
    let metrics = Metrics::new(&MetricsDetail::Karpenter.table());
    let index = cluster();
    let fleet = ClusterMetrics::new(MetricsDetail::Karpenter, true, at(50));
    collect(&fleet, &index, &PodDecisions::new(at(50)), &Known(Some(Arc::new(catalogue()))), &metrics, at(400));
    let claims: Vec<_> = index.claims.values().take(1).cloned().collect();
    counters::registered(&metrics, &claims[0]);
    let kind = CommandKind { reason: "Drifted".to_owned(), replaces: true, nodes: 1 };
    counters::move_begun(&metrics, &kind, &claims, &[]);
    let mut node = index.nodes.get("node-0").map(|node| Node::clone(node)).unwrap();
    node.metadata.deletion_timestamp = node.metadata.creation_timestamp.clone();
    counters::node_gone(&metrics, &node, Some(&claims[0]), true, at(410));
    metrics.set(&metrics::ELIGIBLE_NODES, ByReason { reason: "drifted" }, 1.0);
    metrics.render()
}

/// Returns a test file for promtool: each series has its value of the scrape, and each expression an expected result.
fn test_file(scrape: &str) -> Value {
    let lines = scrape.lines().filter(|line| !line.starts_with('#'));
    let series = lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(series, value)| json!({"series": series, "values": format!("{value}x10")}));
    let exists = |(_, expr): &(String, String)| {
        let expr = format!("count({expr}) > bool 0");
        json!({"expr": expr, "eval_time": "5m", "exp_samples": [{"labels": "{}", "value": 1}]})
    };
    let mut results: Vec<Value> = panels().iter().map(exists).collect();
    let nodes = |pool: usize| json!({"labels": format!("{{nodepool=\"pool-{pool}\"}}"), "value": 3});
    results.push(json!({
        "expr": "count by (nodepool) (karpenter_nodes_allocatable{nodepool!=\"N/A\", resource_type=\"cpu\"})",
        "eval_time": "5m", "exp_samples": (0..10).map(nodes).collect::<Vec<_>>(),
    }));
    json!({
        "rule_files": [], "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series.collect::<Vec<_>>(), "promql_expr_test": results}],
    })
}

/// Prometheus evaluates the expressions over the series that the controller exports.
#[test]
fn karpenters_boards_return_data_in_karpenter_detail() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("boards.test.yaml"), test_file(&scrape()).to_string()).unwrap();
    let output = Command::new(linters::prometheus("promtool").unwrap())
        .args(["test", "rules", "boards.test.yaml"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}");
}
