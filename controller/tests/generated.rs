//! Test that `docs/metrics.md`, and the list by which `kerf convert` checks queries, match the table of metrics, from which
//! `make bless` writes both.
#![expect(clippy::expect_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use controller::metrics::detail::MetricsDetail;
use controller::metrics::table;
use daemon::metric::{Description, Kind};

fn check(file: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, wanted).expect("the file can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "{file} is stale: run `make bless` and review the difference");
}

#[test]
fn metrics_page_matches_the_table() {
    check("docs/metrics.md", &page());
}

#[test]
fn metrics_of_convert_match_the_table() {
    let line = |metric: &Description| format!("{},{},{}\n", metric.name, metric.kind.as_str(), metric.labels.join(" "));
    check("cli/src/convert/monitoring/controller.csv", &table().iter().map(line).collect::<String>());
}

#[test]
fn table_has_unique_names_with_units() {
    let table = table();
    let names: BTreeSet<&str> = table.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), table.len());
    for metric in table {
        let name = metric.name;
        match metric.kind {
            Kind::Counter => assert!(name.ends_with("_total"), "{name}"),
            Kind::Histogram(_) | Kind::Summary(_) => {
                assert!(["_seconds", "_score", "_size"].iter().any(|unit| name.ends_with(unit)), "{name}")
            }
            // Karpenter's one gauge with that suffix.
            Kind::Gauge => assert!(!name.ends_with("_total") || name == "karpenter_nodepools_cost_total", "{name}"),
        }
        assert!(
            ["karpenter_", "kerf_", "operator_", "process_"].iter().any(|prefix| name.starts_with(prefix)),
            "{name}"
        );
        assert!(!metric.help.is_empty() && !metric.help.ends_with('.'), "{name}");
    }
}

const INTRODUCTION: &str = "# Metrics of the controller

This page lists every metric of the controller. It is a reference, written from `controller/src/metrics/definitions` by `make bless`. Metrics whose
names begin with `karpenter_` or `operator_` have Karpenter's meaning; those that begin with `kerf_` are our own; those of the
process (`process_`) are as in Prometheus' client libraries. The alerts in
`controller/monitoring/alerts.yaml` are explained in [runbook.md](runbook.md); `controller/monitoring/boards` has boards for Grafana.
`kerf convert` compares rules and boards of Karpenter with this list ([migrate-from-karpenter.md](migrate-from-karpenter.md)).

Each scrape counts the gauges of nodes, NodePools, pods, instance types and conditions anew. Only the leader exports these gauges, so
sums over replicas are right.

## Detail

The setting `METRICS_DETAIL`, in the chart `kerf.metricsDetail`, has two values:

| | `aggregated`, the default | `karpenter` |
|---|---|---|
| gauges of nodes | by NodePool, of managed nodes, five resources | one per node and resource, of all nodes |
| `karpenter_pods_state` | by NodePool, phase, scheduled, ready | one per pod |
| waiting pods | the 10 oldest | all |
| instance types | the 10 most used | all of the EC2NodeClasses |
| `operator_*` | by condition | one per object and condition |
| 1,000 nodes of ten NodePools with 20,000 pods | fewer than 2,000 series, which a test counts | about 50,000 series, of which those of nodes have 40 labels |

Sums over the remaining labels are the same. With `karpenter` all 72 metrics of Karpenter 1.14 have its labels, and two are summaries; a
test compares them. Its Grafana boards show data, except panels of `controller_runtime_*` metrics. Prometheus needs memory for the
series as with Karpenter. `DISABLE_CLUSTER_STATE_OBSERVABILITY=true` leaves out metrics of nodes, NodePools, pods, workloads and costs,
and `operator_*` metrics except those of EC2NodeClasses.

## Metrics

| name | kind | labels | meaning |
|---|---|---|---|
";

const DETAILED: &str = "
## Metrics with other labels in Karpenter's detail

| name | kind | labels | meaning |
|---|---|---|---|
";

const ABSENT: &str = "
## Metrics of Karpenter that Kerf does not have

| metrics | reason, and the metric to use |
|---|---|
| `controller_runtime_*`, `workqueue_*`, `client_go_*`, `leader_election_*`, `go_*`, `aws_sdk_go_*` | metrics of Go libraries: use `kerf_act_steps_total`, `kerf_cloud_calls_total`, `kerf_cloud_waiting_seconds_total` |
| `karpenter_scheduler_queue_depth`, `karpenter_scheduler_unfinished_work_seconds` in the aggregated detail | each plan would be a series: use `karpenter_scheduler_scheduling_duration_seconds` |
| `operator_status_condition_*`, `operator_termination_*` without a kind in the name, deprecated in Karpenter | use the metric of one kind |
| `operator_capacitybuffer_*` | use the events of the CapacityBuffer |
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for metric in table() {
        let (kind, labels) = (metric.kind.as_str(), metric.labels.join(", "));
        writeln!(page, "| `{}` | {kind} | {labels} | {} |", metric.name, metric.help).expect("a String takes all");
    }
    page.push_str(DETAILED);
    let same = |metric: &Description| table().iter().any(|it| (it.help, it.labels) == (metric.help, metric.labels));
    for metric in MetricsDetail::Karpenter.table().iter().filter(|metric| !same(metric)) {
        let (kind, labels) = (metric.kind.as_str(), metric.labels.join(", "));
        writeln!(page, "| `{}` | {kind} | {labels} | {} |", metric.name, metric.help).expect("a String takes all");
    }
    page.push_str(ABSENT);
    page
}
