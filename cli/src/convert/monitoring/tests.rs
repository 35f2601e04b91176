//! Tests of queries against the exported metrics and labels.

use super::*;

/// Returns problems and fixes, with `!` before those because of which the query returns nothing.
fn found(text: &str) -> Vec<String> {
    let line = |it: &Finding| format!("{}{}; {}", if it.is_fatal { "! " } else { "" }, it.problem, it.fix);
    findings(text, &BTreeSet::new()).iter().map(line).collect()
}

#[test]
fn findings_are_empty_when_kerf_exports_all_names() {
    let texts = [
        "sum by (nodepool) (karpenter_nodepools_usage{resource_type=\"cpu\"}) > 9",
        "rate(karpenter_nodeclaims_created_total{reason=\"provisioned\", job=\"karpenter\", namespace=\"kube-system\"}[5m])",
        "histogram_quantile(0.9, sum by (le, nodepool) (rate(karpenter_nodes_termination_duration_seconds_bucket[5m])))",
        "karpenter_nodes_termination_duration_seconds_sum / karpenter_nodes_termination_duration_seconds_count",
        "karpenter_nodes_allocatable * on (node_name) group_left (arch) node_info",
        "kube_pod_info{node_name=\"a\"}",
        "sum by (x) (label_replace(kerf_nodes_count, \"x\", \"$1\", \"nodepool\", \"(.*)\"))",
        "operator_nodeclaim_status_condition_count{type=\"Ready\", status!=\"True\"}",
        "operator_reconcile_total{controller=\"mysql\"}",
        "controller_runtime_reconcile_total{job=\"cert-manager\"}",
        "karpenter_pods_unbound_time_seconds{exported_namespace=\"shop\"}",
        "kerf_agent_stage_seconds{stage=\"ready\"}",
    ];
    for text in texts {
        assert_eq!(found(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn findings_name_metrics_and_labels_that_do_not_exist() {
    let rows = [
        (
            "karpenter_nodes_total > 100",
            "! metric karpenter_nodes_total is not exported; write sum by (nodepool) (kerf_nodes_count)",
        ),
        (
            "karpenter_scheduler_queue_depth > 0",
            "! metric karpenter_scheduler_queue_depth is not exported; write sum(karpenter_scheduler_pending_pods_by_effective_zone_count), or karpenter_scheduler_unschedulable_pods_count for pods without a place",
        ),
        (
            "karpenter_nodepools_usag",
            "! metric karpenter_nodepools_usag is not exported; did you mean karpenter_nodepools_usage?",
        ),
        (
            "karpenter_sunshine",
            "! metric karpenter_sunshine is not exported; write a metric of docs/metrics.md, or delete the query",
        ),
        (
            "karpenter_nodes_termination_duration_seconds > 3",
            "! metric karpenter_nodes_termination_duration_seconds is a histogram, and has no series of this name; write histogram_quantile(0.99, sum by (le) (rate(karpenter_nodes_termination_duration_seconds_bucket[5m])))",
        ),
        (
            "rate(karpenter_nodeclaims_created_total{result=\"error\"}[5m])",
            "! no series of karpenter_nodeclaims_created_total has label result, it has min_values_relaxed, nodepool, reason; failed launches are karpenter_cloudprovider_instance_launch_failures_total, failed calls karpenter_cloudprovider_errors_total",
        ),
        (
            "karpenter_nodepools_usage{team=\"a\"}",
            "no series of karpenter_nodepools_usage has label team, it has nodepool, resource_type; remove it, unless Prometheus adds the label to the target",
        ),
        (
            "karpenter_nodes_allocatable{instance_type!=\"a\"}",
            "no series of karpenter_nodes_allocatable has label instance_type, it has nodepool, resource_type; kerf_nodes_count has nodepool, instance_type and capacity_type; kerf.metricsDetail: karpenter has all labels",
        ),
        (
            "sum by (node_name) (karpenter_nodes_allocatable)",
            "no series of karpenter_nodes_allocatable has label node_name, it has nodepool, resource_type; group by nodepool, or set kerf.metricsDetail: karpenter, which has series of single nodes",
        ),
        (
            "workqueue_depth{service=\"karpenter\"}",
            "! metric workqueue_depth of a Go library is not exported; write kerf_act_steps_total, by step and outcome, or kerf_cloud_calls_total, by call and outcome",
        ),
    ];
    for (text, expected) in rows {
        assert_eq!(found(text), [expected], "{text}");
    }
}

#[test]
fn findings_skip_recorded_metrics() {
    let recorded = BTreeSet::from(["karpenter_mine".to_owned()]);
    assert_eq!(findings("karpenter_mine > 1", &recorded), []);
}

#[test]
fn unknown_template_labels_are_those_of_no_series() {
    let labels = || ["nodepool", "pod", "node_name"].map(str::to_owned);
    let found = |text| unknown_template_labels(text, labels()).len();
    assert_eq!([found("kerf_nodes_count"), found("kerf_nodes_count + node_load1"), found("vector(1)")], [1, 0, 0]);
}
