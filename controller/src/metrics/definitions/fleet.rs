//! Gauges of the whole cluster: nodes, NodePools, pods, costs and instance types.
//!
//! Karpenter has most of them per node or pod. Here they are per NodePool, so a thousand nodes are not fifty thousand series;
//! `detailed` has Karpenter's labels.

use daemon::metric::{Counter, Gauge, Histogram, NoLabels};
use daemon::metrics;

use super::buckets::{DURATIONS, STEPS};
use super::labels::{
    ByCapacityTypeZone, ByCommitment, ByInstanceType, ByInstanceTypeCapacityTypeZone, ByLabelValue, ByNameNamespace,
    ByNamespaceWorkload, ByNodePool, ByNodePoolInstanceTypeCapacityType, ByNodePoolPhaseScheduledReady,
    ByNodePoolResourceType, ByResourceType, ByResourceTypeNodePool, BySpendPolicy, BySpendPolicyLimit,
};

metrics! {
    table CLUSTER_METRICS;
    ALLOCATABLE: Gauge<ByNodePoolResourceType> = (
        "karpenter_nodes_allocatable",
        "Allocatable resources of nodes, in cores, bytes or units, by pool"
    );
    POD_REQUESTS: Gauge<ByNodePoolResourceType> = (
        "karpenter_nodes_total_pod_requests",
        "Requests of pods on nodes, including DaemonSet pods, by pool"
    );
    POD_LIMITS: Gauge<ByNodePoolResourceType> = (
        "karpenter_nodes_total_pod_limits",
        "Limits of pods on nodes, including DaemonSet pods, by pool"
    );
    DAEMON_REQUESTS: Gauge<ByNodePoolResourceType> = (
        "karpenter_nodes_total_daemon_requests",
        "Requests of DaemonSet pods on nodes, by pool"
    );
    DAEMON_LIMITS: Gauge<ByNodePoolResourceType> = (
        "karpenter_nodes_total_daemon_limits",
        "Limits of DaemonSet pods on nodes, by pool"
    );
    OVERHEAD: Gauge<ByNodePoolResourceType> = (
        "karpenter_nodes_system_overhead",
        "System overhead of nodes, by pool"
    );
    OLDEST_NODE: Gauge<ByNodePool> = (
        "karpenter_nodes_current_lifetime_seconds",
        "Age of the pool's oldest node, in seconds"
    );
    UTILIZATION: Gauge<ByResourceType> = (
        "karpenter_cluster_utilization_percent",
        "Requests of pods in percent of allocatable resources"
    );
    POOL_LIMIT: Gauge<ByResourceTypeNodePool> = (
        "karpenter_nodepools_limit",
        "The limit of a NodePool"
    );
    POOL_USAGE: Gauge<ByResourceTypeNodePool> = (
        "karpenter_nodepools_usage",
        "Capacity of the nodes of a NodePool, from its status"
    );
    POOL_COST: Gauge<ByNodePool> = (
        "karpenter_nodepools_cost_total",
        "Current price of the nodes of a NodePool, in dollars per hour; without nodes of unknown price"
    );
    UNPRICED: Gauge<NoLabels> = (
        "kerf_nodes_unpriced_count",
        "Nodes of unknown price, which no cost metric includes"
    );
    COST_ERRORS: Counter<ByNodePool> = (
        "karpenter_nodepools_cost_tracker_errors_total",
        "Nodes whose price was unknown, by pool; each counts once until its price is known"
    );
    COMMITMENT_USED: Gauge<ByCommitment> = (
        "kerf_commitment_used_ratio",
        "Part of a Commitment that nodes use, from 0 to 1, as the last plan found"
    );
    COMMITMENT_COVERED: Gauge<ByCommitment> = (
        "kerf_commitment_covered_cost_dollars_per_hour",
        "What the nodes that use a Commitment would cost without it"
    );
    COMMITMENT_COVERAGE: Gauge<NoLabels> = (
        "kerf_commitments_coverage_ratio",
        "Part of the price of all on-demand nodes for which Commitments pay, from 0 to 1; absent without Commitments or such nodes"
    );
    SPEND_COST: Gauge<BySpendPolicy> = (
        "kerf_spendpolicy_cost_dollars_per_hour",
        "Cost of the nodes of a SpendPolicy, from its status"
    );
    SPEND_LIMIT: Gauge<BySpendPolicyLimit> = (
        "kerf_spendpolicy_limit_dollars_per_hour",
        "Limit of a SpendPolicy that applies now: max or soft"
    );
    SPEND_MONTH: Gauge<BySpendPolicy> = (
        "kerf_spendpolicy_month_cost_dollars",
        "Cost of the nodes of a SpendPolicy in this calendar month"
    );
    SPEND_FORECAST: Gauge<BySpendPolicy> = (
        "kerf_spendpolicy_month_forecast_dollars",
        "Cost of the nodes of a SpendPolicy at the end of this month, if they go on to cost as much"
    );
    SPEND_BUDGET: Gauge<BySpendPolicy> = (
        "kerf_spendpolicy_month_budget_dollars",
        "Budget of a SpendPolicy for a calendar month"
    );
    NODES: Gauge<ByNodePoolInstanceTypeCapacityType> = (
        "kerf_nodes_count",
        "Nodes by pool, instance type and capacity type; beyond 100 combinations the rarest are reported as type \
         other"
    );
    ZONE_NODES: Gauge<ByCapacityTypeZone> = (
        "kerf_nodes_zone_count",
        "Nodes of NodePools by capacity type and zone"
    );
    WORKLOAD_COST: Gauge<ByNamespaceWorkload> = (
        "kerf_workload_cost_dollars_per_hour",
        "Share of a workload in the price of its nodes, by requests, idle capacity shared; the 50 most expensive, \
         then other"
    );
    WORKLOAD_PODS: Gauge<ByNamespaceWorkload> = (
        "kerf_workload_pods_count",
        "Pods of the workloads with a reported cost"
    );
    LABEL_COST: Gauge<ByLabelValue> = (
        "kerf_label_cost_dollars_per_hour",
        "Share of the pods with a value of the label COST_LABEL in the price of their nodes, as for workloads; pods \
         without the label count for that of their namespace, or as none"
    );
    LABEL_PODS: Gauge<ByLabelValue> = (
        "kerf_label_pods_count",
        "Pods by the values of the label COST_LABEL"
    );
    PODS: Gauge<ByNodePoolPhaseScheduledReady> = (
        "karpenter_pods_state",
        "Pods by the pool of their node, phase, and whether they are scheduled and ready"
    );
    UNBOUND: Gauge<ByNameNamespace> = (
        "karpenter_pods_unbound_time_seconds",
        "Age of unscheduled pods in seconds; the 10 oldest"
    );
    UNSTARTED: Gauge<ByNameNamespace> = (
        "karpenter_pods_unstarted_time_seconds",
        "Age of pods that were not ready yet in seconds; the 10 oldest"
    );
    BOUND: Histogram<NoLabels> = (
        "karpenter_pods_bound_duration_seconds",
        "Seconds from the creation of a pod to its binding",
        DURATIONS
    );
    STARTUP: Histogram<NoLabels> = (
        "karpenter_pods_startup_duration_seconds",
        "Seconds from the creation of a pod until it was ready; a histogram, Karpenter has a summary",
        DURATIONS
    );
    UNDECIDED: Gauge<ByNameNamespace> = (
        "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
        "Age of unscheduled pods that no plan has contained yet, in seconds; the 10 oldest"
    );
    PLACED_UNBOUND: Gauge<ByNameNamespace> = (
        "karpenter_pods_provisioning_unbound_time_seconds",
        "Seconds since the first nomination of unscheduled pods; the 10 oldest"
    );
    PLACED_UNSTARTED: Gauge<ByNameNamespace> = (
        "karpenter_pods_provisioning_unstarted_time_seconds",
        "Seconds since the first nomination of pods that were not ready yet; the 10 oldest"
    );
    PLACED_BOUND: Histogram<NoLabels> = (
        "karpenter_pods_provisioning_bound_duration_seconds",
        "Seconds from the first nomination of a pod to its binding",
        STEPS
    );
    PLACED_STARTUP: Histogram<NoLabels> = (
        "karpenter_pods_provisioning_startup_duration_seconds",
        "Seconds from the first nomination of a pod until it was ready",
        STEPS
    );
    OFFERING_PRICE: Gauge<ByInstanceTypeCapacityTypeZone> = (
        "karpenter_cloudprovider_instance_type_offering_price_estimate",
        "Price of the 10 most used instance types, in dollars per hour"
    );
    OFFERING_AVAILABLE: Gauge<ByInstanceTypeCapacityTypeZone> = (
        "karpenter_cloudprovider_instance_type_offering_available",
        "1 if the offering is available, else 0; of the 10 most used instance types"
    );
    TYPE_CORES: Gauge<ByInstanceType> = (
        "karpenter_cloudprovider_instance_type_cpu_cores",
        "Cores of the 10 most used instance types"
    );
    TYPE_MEMORY: Gauge<ByInstanceType> = (
        "karpenter_cloudprovider_instance_type_memory_bytes",
        "Memory of the 10 most used instance types, in bytes"
    );
}
