//! Test that `docs/metrics.md` matches the table of metrics, from which `make bless` writes it.
#![expect(clippy::expect_used, reason = "a failed assumption should fail the test")]

use std::fmt::Write as _;
use std::path::Path;

use controller::metrics::TABLE;
use daemon::metric::Kind;

#[test]
fn metrics_page_matches_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let wanted = page();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &wanted).expect("docs/metrics.md can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == wanted, "docs/metrics.md is stale: run `make bless` and review the difference");
}

#[test]
fn table_has_unique_names_with_units() {
    let mut names: Vec<&str> = TABLE.iter().map(|metric| metric.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), TABLE.len());
    for metric in TABLE {
        let name = metric.name;
        match metric.kind {
            Kind::Counter => assert!(name.ends_with("_total"), "{name}"),
            Kind::Histogram(_) => {
                assert!(["_seconds", "_score", "_size"].iter().any(|unit| name.ends_with(unit)), "{name}")
            }
            // Karpenter's one gauge with that suffix.
            Kind::Gauge => assert!(!name.ends_with("_total") || name == "karpenter_nodepools_cost_total", "{name}"),
        }
        assert!(["karpenter_", "kerf_", "operator_"].iter().any(|prefix| name.starts_with(prefix)), "{name}");
        assert!(!metric.help.is_empty() && !metric.help.ends_with('.'), "{name}");
    }
}

const INTRODUCTION: &str = "# Metrics of the controller

Written from `controller/src/metrics.rs` by `make bless`. Names that begin with `karpenter_` or `operator_` mean what they mean in
Karpenter; `kerf_` are our own. `docs/runbook.md` belongs to the alerts in `controller/monitoring/alerts.yaml`, and
`controller/monitoring/boards` are boards for Grafana.

What Karpenter tells of every node, pod or object is told here by pool, condition or workload, and of what waits longest: a thousand
nodes of ten pools with twenty thousand pods are less than two thousand series, which a test counts. Sums over the labels that are
left are the same as in Karpenter. Gauges of nodes, pools, pods, types and conditions are counted at each scrape, by the replica that
leads; `DISABLE_CLUSTER_STATE_OBSERVABILITY=true` leaves out those of `controller/src/metrics/fleet.rs`.

| name | kind | labels | meaning |
|---|---|---|---|
";

const ABSENT: &str = "
## What Karpenter has and Kerf has not

| metrics | why, and what instead |
|---|---|
| `controller_runtime_*`, `workqueue_*`, `client_go_*`, `leader_election_*`, `go_*`, `aws_sdk_go_*` | of libraries that are not there: `kerf_act_steps_total`, `kerf_cloud_calls_total`, `kerf_cloud_waiting_seconds_total` |
| `karpenter_scheduler_queue_depth`, `karpenter_scheduler_unfinished_work_seconds` | a plan is made at once, not pod by pod: `karpenter_scheduler_scheduling_duration_seconds` |
| `karpenter_nodepools_cost_tracker_errors_total` | `kerf_nodes_unpriced_count` |
| `karpenter_cloudprovider_batcher_batch_time_seconds` | nobody waits for others to share a call |
| `karpenter_cloudprovider_instance_termination_failures_total` | `karpenter_cloudprovider_errors_total` of method `TerminateInstances` |
| labels `min_values_relaxed`, `zone_id`, `controller`, `scheduling_id`, and names of nodes and objects | left out |
";

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for metric in TABLE {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let labels = metric.labels.join(", ");
        writeln!(page, "| `{}` | {kind} | {labels} | {} |", metric.name, metric.help).expect("a String takes all");
    }
    page.push_str(ABSENT);
    page
}
