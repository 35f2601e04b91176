//! Metrics of older versions of Karpenter, and of the current one where Kerf has no metric of the name.

/// Prefix of all of Karpenter's own metrics.
pub(super) const PREFIX: &str = "karpenter_";

/// Metrics that were renamed, without the common prefix and without the suffixes of histograms.
pub(super) const METRICS: [(&str, &str); 37] = [
    ("allocation_controller_scheduling_duration_seconds", "scheduler_scheduling_duration_seconds"),
    ("cloudprovider_instance_type_price_estimate", "cloudprovider_instance_type_offering_price_estimate"),
    ("deprovisioning_actions", "voluntary_disruption_decisions_total"),
    ("deprovisioning_actions_performed", "voluntary_disruption_decisions_total"),
    ("deprovisioning_consolidation_timeouts", "voluntary_disruption_consolidation_timeouts_total"),
    ("deprovisioning_eligible_machines", "voluntary_disruption_eligible_nodes"),
    ("deprovisioning_evaluation_duration_seconds", "voluntary_disruption_decision_evaluation_duration_seconds"),
    ("deprovisioning_replacement_machine_launch_failure_counter", "voluntary_disruption_queue_failures_total"),
    ("disruption_actions_performed_total", "voluntary_disruption_decisions_total"),
    ("disruption_budgets_allowed_disruptions", "nodepools_allowed_disruptions"),
    ("disruption_consolidation_timeouts_total", "voluntary_disruption_consolidation_timeouts_total"),
    ("disruption_eligible_nodes", "voluntary_disruption_eligible_nodes"),
    ("disruption_evaluation_duration_seconds", "voluntary_disruption_decision_evaluation_duration_seconds"),
    ("disruption_replacement_nodeclaim_failures_total", "voluntary_disruption_queue_failures_total"),
    ("ignored_pod_count", "scheduler_ignored_pods_count"),
    ("interruption_deleted_messages", "interruption_deleted_messages_total"),
    ("interruption_message_latency_time_seconds", "interruption_message_queue_duration_seconds"),
    ("interruption_received_messages", "interruption_received_messages_total"),
    ("machines_created", "nodeclaims_created_total"),
    ("machines_disrupted", "nodeclaims_disrupted_total"),
    ("machines_terminated", "nodeclaims_terminated_total"),
    ("nodeclaims_created", "nodeclaims_created_total"),
    ("nodeclaims_disrupted", "nodeclaims_disrupted_total"),
    ("nodeclaims_terminated", "nodeclaims_terminated_total"),
    ("nodepool_limit", "nodepools_limit"),
    ("nodepool_usage", "nodepools_usage"),
    ("nodes_created", "nodes_created_total"),
    ("nodes_eviction_requests_total", "pods_eviction_requests_total"),
    ("nodes_terminated", "nodes_terminated_total"),
    ("nodes_termination_time_seconds", "nodes_termination_duration_seconds"),
    ("pods_startup_time_seconds", "pods_startup_duration_seconds"),
    ("provisioner_limit", "nodepools_limit"),
    ("provisioner_scheduling_duration_seconds", "scheduler_scheduling_duration_seconds"),
    ("provisioner_scheduling_simulation_duration_seconds", "scheduler_scheduling_duration_seconds"),
    ("provisioner_usage", "nodepools_usage"),
    ("scheduler_ignored_pod_count", "scheduler_ignored_pods_count"),
    ("scheduling_simulation_duration_seconds", "scheduler_scheduling_duration_seconds"),
];

/// Metrics without a one-to-one replacement, without the suffixes of histograms, with the fix.
pub(super) const GONE: [(&str, &str); 31] = [
    ("karpenter_consistency_errors", "delete the rule: the memory overhead is measured and used by plans"),
    ("karpenter_deprovisioning_replacement_machine_initialized_seconds", TRANSITIONS),
    (
        "karpenter_disruption_pods_disrupted_total",
        "count evictions by karpenter_pods_eviction_requests_total{code=\"200\"}",
    ),
    ("karpenter_disruption_queue_depth", "count nodes by karpenter_nodepools_nodes_consuming_budgets"),
    ("karpenter_disruption_replacement_nodeclaim_initialized_seconds", TRANSITIONS),
    ("karpenter_interruption_actions_performed", DISRUPTED),
    ("karpenter_interruption_actions_performed_total", DISRUPTED),
    ("karpenter_machines_drifted", DRIFTED),
    ("karpenter_machines_initialized", INITIALIZED),
    ("karpenter_machines_launched", LAUNCHED),
    ("karpenter_machines_registered", REGISTERED),
    ("karpenter_node_claim_failures", FAILURES),
    ("karpenter_nodeclaim_failures", FAILURES),
    ("karpenter_nodeclaims_drifted", DRIFTED),
    ("karpenter_nodeclaims_initialized", INITIALIZED),
    ("karpenter_nodeclaims_launched", LAUNCHED),
    ("karpenter_nodeclaims_registered", REGISTERED),
    ("karpenter_nodes_count", COUNT),
    (
        "karpenter_nodes_eviction_queue_depth",
        "write kerf_pods_never_evicted_count for blocked pods, or karpenter_pods_eviction_requests_total, by code",
    ),
    ("karpenter_nodes_total", COUNT),
    ("karpenter_provisioner_scheduling_queue_depth", PENDING),
    ("karpenter_provisioner_unschedulable_pod_reasons", UNSCHEDULABLE),
    (
        "karpenter_provisioner_usage_pct",
        "divide karpenter_nodepools_usage by karpenter_nodepools_limit, both by nodepool and resource_type",
    ),
    ("karpenter_scheduler_queue_depth", PENDING),
    (
        "karpenter_scheduler_unfinished_work_seconds",
        "write karpenter_scheduler_scheduling_duration_seconds_bucket, or set kerf.metricsDetail: karpenter",
    ),
    ("karpenter_unschedulable_pod_reasons", UNSCHEDULABLE),
    ("operator_status_condition_count", BY_KIND),
    ("operator_status_condition_current_status_seconds", BY_KIND),
    ("operator_status_condition_transition_seconds", BY_KIND),
    ("operator_status_condition_transitions_total", BY_KIND),
    (
        "operator_termination_current_time_seconds",
        "write the metric of one kind, such as operator_nodeclaim_termination_current_time_seconds",
    ),
];

const BY_KIND: &str = "write the metric of one kind, such as operator_nodeclaim_status_condition_count{type=\"Ready\"}, without the label kind";
const COUNT: &str = "write sum by (nodepool) (kerf_nodes_count)";
const DISRUPTED: &str = "write karpenter_interruption_received_messages_total, by message_type";
const DRIFTED: &str = "write operator_nodeclaim_status_condition_transitions_total{type=\"Drifted\", status=\"True\"}";
const FAILURES: &str = "write karpenter_cloudprovider_instance_launch_failures_total, by reason";
const INITIALIZED: &str =
    "write operator_nodeclaim_status_condition_transitions_total{type=\"Initialized\", status=\"True\"}";
const LAUNCHED: &str =
    "write operator_nodeclaim_status_condition_transitions_total{type=\"Launched\", status=\"True\"}";
const PENDING: &str = "write sum(karpenter_scheduler_pending_pods_by_effective_zone_count), or \
                       karpenter_scheduler_unschedulable_pods_count for pods without a place";
const REGISTERED: &str =
    "write operator_nodeclaim_status_condition_transitions_total{type=\"Registered\", status=\"True\"}";
const TRANSITIONS: &str =
    "write operator_nodeclaim_status_condition_transition_seconds_bucket{type=\"Initialized\", status=\"True\"}";
const UNSCHEDULABLE: &str = "write kerf_pods_unschedulable_count, by reason; the event FailedScheduling of each pod has the reason per NodePool";

/// Prefixes of metrics of Go libraries, which other programs have too.
pub(super) const LIBRARIES: [&str; 8] = [
    "aws_sdk_go_",
    "certwatcher_",
    "client_go_",
    "controller_runtime_",
    "go_",
    "leader_election_",
    "rest_client_",
    "workqueue_",
];
/// Fix for a metric of a Go library.
pub(super) const LIBRARY_FIX: &str =
    "write kerf_act_steps_total, by step and outcome, or kerf_cloud_calls_total, by call and outcome";

/// Labels of Karpenter's series that Kerf's series of the same name do not have, with the fix.
pub(super) const LABELS: [(&str, &str); 25] = [
    ("action", "write decision"),
    ("arch", NODES),
    ("capacity_type", NODES),
    ("deprovisioner", "write reason"),
    ("effect", NODES),
    ("host", PODS),
    ("instance_category", NODES),
    ("instance_cpu", NODES),
    ("instance_family", NODES),
    ("instance_generation", NODES),
    ("instance_memory", NODES),
    ("instance_size", NODES),
    ("instance_type", NODES),
    ("kind", "write the metric of one kind, such as operator_nodeclaim_status_condition_count"),
    ("node", SINGLE_NODES),
    ("node_name", SINGLE_NODES),
    ("nodeclaim", "group by nodepool; kubectl get nodeclaims shows single NodeClaims"),
    ("os", NODES),
    ("owner", PODS),
    (
        "quantile",
        "write histogram_quantile(0.99, sum by (le) (rate(NAME_bucket[5m]))), or set kerf.metricsDetail: karpenter",
    ),
    ("resource_name", "write resource_type"),
    ("result", FAILURES_BY_RESULT),
    ("scheduling_id", "remove it"),
    ("zone", NODES),
    ("zone_id", NODES),
];

const NODES: &str =
    "kerf_nodes_count has nodepool, instance_type and capacity_type; kerf.metricsDetail: karpenter has all labels";
const PODS: &str = "kerf_workload_pods_count has namespace and workload; kerf.metricsDetail: karpenter has all labels";
const SINGLE_NODES: &str = "group by nodepool, or set kerf.metricsDetail: karpenter, which has series of single nodes";
const FAILURES_BY_RESULT: &str = "failed launches are karpenter_cloudprovider_instance_launch_failures_total, failed calls \
                                  karpenter_cloudprovider_errors_total";

#[cfg(test)]
mod tests {
    use super::super::exported::{self, Series};
    use super::*;

    #[test]
    fn replacements_are_exported() {
        for (old, new) in METRICS {
            let exported = exported::series(&format!("{PREFIX}{new}"));
            assert!(exported.is_some(), "{new} in place of {old} is not exported");
            assert!(METRICS.iter().all(|(old, _)| *old != new), "{new}");
        }
    }

    /// Every metric and every label in a fix is exported.
    #[test]
    fn fixes_name_exported_metrics_and_labels() {
        let fixes = GONE.iter().chain(&LABELS).map(|(_, fix)| *fix).chain([LIBRARY_FIX]);
        for fix in fixes {
            let words = fix.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
            for name in words.filter(|word| ["karpenter_", "operator_", "kerf_"].iter().any(|it| word.starts_with(it)))
            {
                assert!(exported::series(name).is_some(), "{name} in {fix:?} is not exported");
            }
            let starts = fix.find(['{']).map(|brace| fix[..brace].rfind(' ').map_or(0, |space| space + 1));
            for selector in
                starts.map(|start| super::super::promql::read(&fix[start..])).into_iter().flat_map(|it| it.selectors)
            {
                let Some(Series::Exported(labels)) = exported::series(&selector.metric) else { continue };
                assert!(selector.matchers.iter().all(|it| labels.contains(&it.label.as_str())), "{fix}");
            }
        }
    }

    #[test]
    fn tables_are_sorted() {
        assert!(METRICS.is_sorted() && GONE.is_sorted_by_key(|row| row.0) && LABELS.is_sorted_by_key(|row| row.0));
    }
}
