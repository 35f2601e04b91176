//! Metrics of the cluster: nodes, NodePools, pods, costs and waits. Karpenter reports most of them for each node or pod. Kerf
//! reports them by NodePool, so that a thousand nodes do not become fifty thousand series.

use daemon::metric::{Kind, Metric};

use super::{DURATIONS, STEPS};

const fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Metric {
    Metric { name, help, kind: Kind::Gauge, labels }
}

const BY_RESOURCE: &[&str] = &["nodepool", "resource_type"];
const OFFERING: &[&str] = &["instance_type", "capacity_type", "zone"];

/// Allocatable resources of nodes.
pub const ALLOCATABLE: Metric = gauge(
    "karpenter_nodes_allocatable",
    "Allocatable resources of nodes, in cores, bytes or units, by pool",
    BY_RESOURCE,
);
/// Requests of pods.
pub const POD_REQUESTS: Metric = gauge(
    "karpenter_nodes_total_pod_requests",
    "Requests of pods on nodes, including DaemonSet pods, by pool",
    BY_RESOURCE,
);
/// Limits of pods.
pub const POD_LIMITS: Metric = gauge(
    "karpenter_nodes_total_pod_limits",
    "Limits of pods on nodes, including DaemonSet pods, by pool",
    BY_RESOURCE,
);
/// Requests of DaemonSet pods.
pub const DAEMON_REQUESTS: Metric =
    gauge("karpenter_nodes_total_daemon_requests", "Requests of DaemonSet pods on nodes, by pool", BY_RESOURCE);
/// Limits of DaemonSet pods.
pub const DAEMON_LIMITS: Metric =
    gauge("karpenter_nodes_total_daemon_limits", "Limits of DaemonSet pods on nodes, by pool", BY_RESOURCE);
/// System overhead of nodes.
pub const OVERHEAD: Metric = gauge("karpenter_nodes_system_overhead", "System overhead of nodes, by pool", BY_RESOURCE);
/// Age of the oldest node.
pub const OLDEST_NODE: Metric =
    gauge("karpenter_nodes_current_lifetime_seconds", "Age of the pool's oldest node, in seconds", &["nodepool"]);
/// Utilization of nodes by requests.
pub const UTILIZATION: Metric = gauge(
    "karpenter_cluster_utilization_percent",
    "Requests of pods in percent of allocatable resources",
    &["resource_type"],
);
/// Limits of NodePools.
pub const POOL_LIMIT: Metric =
    gauge("karpenter_nodepools_limit", "The limit of a NodePool", &["resource_type", "nodepool"]);
/// Capacity in use by NodePools.
pub const POOL_USAGE: Metric = gauge(
    "karpenter_nodepools_usage",
    "Capacity of the nodes of a NodePool, from its status",
    &["resource_type", "nodepool"],
);
/// Cost of NodePools.
pub const POOL_COST: Metric = gauge(
    "karpenter_nodepools_cost_total",
    "Current price of the nodes of a NodePool, in dollars per hour; without nodes of unknown price",
    &["nodepool"],
);
/// Nodes of unknown price.
pub const UNPRICED: Metric =
    gauge("kerf_nodes_unpriced_count", "Nodes of unknown price, which no cost metric includes", &[]);
/// Nodes by NodePool, instance type and capacity type.
pub const NODES: Metric = gauge(
    "kerf_nodes_count",
    "Nodes by pool, instance type and capacity type; beyond 100 combinations the rarest are reported as type other",
    &["nodepool", "instance_type", "capacity_type"],
);
/// Cost of workloads.
pub const WORKLOAD_COST: Metric = gauge(
    "kerf_workload_cost_dollars_per_hour",
    "Share of a workload in the price of its nodes, by requests, idle capacity shared; the 50 most expensive, then \
     other",
    &["namespace", "workload"],
);
/// Pods of workloads.
pub const WORKLOAD_PODS: Metric =
    gauge("kerf_workload_pods_count", "Pods of the workloads with a reported cost", &["namespace", "workload"]);
/// Pods by state.
pub const PODS: Metric = gauge(
    "karpenter_pods_state",
    "Pods by the pool of their node, phase, and whether they are scheduled and ready",
    &["nodepool", "phase", "scheduled", "ready"],
);
/// Pods without a node.
pub const UNBOUND: Metric = gauge(
    "karpenter_pods_unbound_time_seconds",
    "Age of unscheduled pods in seconds; the 10 oldest",
    &["name", "namespace"],
);
/// Pods that are not running.
pub const UNSTARTED: Metric = gauge(
    "karpenter_pods_unstarted_time_seconds",
    "Age of pods that are not running in seconds; the 10 oldest",
    &["name", "namespace"],
);
/// Time from the creation of pods to their binding.
pub const BOUND: Metric = Metric {
    name: "karpenter_pods_bound_duration_seconds",
    help: "Seconds from the creation of a pod to its binding",
    kind: Kind::Histogram(DURATIONS),
    labels: &[],
};
/// Time from the creation of pods until they are ready.
pub const STARTUP: Metric = Metric {
    name: "karpenter_pods_startup_duration_seconds",
    help: "Seconds from the creation of a pod until it was ready; a histogram, Karpenter has a summary",
    kind: Kind::Histogram(DURATIONS),
    labels: &[],
};
/// Pods that no plan has contained yet.
pub const UNDECIDED: Metric = gauge(
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    "Age of unscheduled pods that no plan has contained yet, in seconds; the 10 oldest",
    &["name", "namespace"],
);
/// Pods with a nomination and without a node.
pub const PLACED_UNBOUND: Metric = gauge(
    "karpenter_pods_provisioning_unbound_time_seconds",
    "Seconds since the first nomination of unscheduled pods; the 10 oldest",
    &["name", "namespace"],
);
/// Pods with a nomination that are not running.
pub const PLACED_UNSTARTED: Metric = gauge(
    "karpenter_pods_provisioning_unstarted_time_seconds",
    "Seconds since the first nomination of pods that are not running; the 10 oldest",
    &["name", "namespace"],
);
/// Time from the nomination of pods to their binding.
pub const PLACED_BOUND: Metric = Metric {
    name: "karpenter_pods_provisioning_bound_duration_seconds",
    help: "Seconds from the first nomination of a pod to its binding",
    kind: Kind::Histogram(STEPS),
    labels: &[],
};
/// Time from the nomination of pods until they are ready.
pub const PLACED_STARTUP: Metric = Metric {
    name: "karpenter_pods_provisioning_startup_duration_seconds",
    help: "Seconds from the first nomination of a pod until it was ready",
    kind: Kind::Histogram(STEPS),
    labels: &[],
};
/// Prices of offerings.
pub const OFFERING_PRICE: Metric = gauge(
    "karpenter_cloudprovider_instance_type_offering_price_estimate",
    "Price of the 10 most used instance types, in dollars per hour",
    OFFERING,
);
/// Availability of offerings.
pub const OFFERING_AVAILABLE: Metric = gauge(
    "karpenter_cloudprovider_instance_type_offering_available",
    "1 if the offering is available, else 0; of the 10 most used instance types",
    OFFERING,
);
/// Cores of instance types.
pub const TYPE_CORES: Metric = gauge(
    "karpenter_cloudprovider_instance_type_cpu_cores",
    "Cores of the 10 most used instance types",
    &["instance_type"],
);
/// Memory of instance types.
pub const TYPE_MEMORY: Metric = gauge(
    "karpenter_cloudprovider_instance_type_memory_bytes",
    "Memory of the 10 most used instance types, in bytes",
    &["instance_type"],
);
