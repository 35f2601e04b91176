//! The metrics of what there is: nodes, pools, pods, what they cost and what they wait for. Karpenter tells most of them for each
//! node or pod; here they are reported by pool, so that a thousand nodes do not become fifty thousand series.

use daemon::metric::{Kind, Metric};

use super::{DURATIONS, STEPS};

const fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Metric {
    Metric { name, help, kind: Kind::Gauge, labels }
}

const BY_RESOURCE: &[&str] = &["nodepool", "resource_type"];
const OFFERING: &[&str] = &["instance_type", "capacity_type", "zone"];

/// What nodes have for pods.
pub const ALLOCATABLE: Metric = gauge(
    "karpenter_nodes_allocatable",
    "Allocatable resources of nodes, in cores, bytes or units, by pool",
    BY_RESOURCE,
);
/// What pods ask for.
pub const POD_REQUESTS: Metric = gauge(
    "karpenter_nodes_total_pod_requests",
    "Requests of pods on nodes, including DaemonSet pods, by pool",
    BY_RESOURCE,
);
/// What pods may take.
pub const POD_LIMITS: Metric = gauge(
    "karpenter_nodes_total_pod_limits",
    "Limits of pods on nodes, including DaemonSet pods, by pool",
    BY_RESOURCE,
);
/// What pods of DaemonSets ask for.
pub const DAEMON_REQUESTS: Metric =
    gauge("karpenter_nodes_total_daemon_requests", "Requests of DaemonSet pods on nodes, by pool", BY_RESOURCE);
/// What pods of DaemonSets may take.
pub const DAEMON_LIMITS: Metric =
    gauge("karpenter_nodes_total_daemon_limits", "Limits of DaemonSet pods on nodes, by pool", BY_RESOURCE);
/// What is kept back.
pub const OVERHEAD: Metric = gauge("karpenter_nodes_system_overhead", "System overhead of nodes, by pool", BY_RESOURCE);
/// How old nodes are.
pub const OLDEST_NODE: Metric =
    gauge("karpenter_nodes_current_lifetime_seconds", "Age of the pool's oldest node, in seconds", &["nodepool"]);
/// How full nodes are.
pub const UTILIZATION: Metric = gauge(
    "karpenter_cluster_utilization_percent",
    "Requests of pods in percent of allocatable resources",
    &["resource_type"],
);
/// What pools may hold.
pub const POOL_LIMIT: Metric =
    gauge("karpenter_nodepools_limit", "The limit of a NodePool", &["resource_type", "nodepool"]);
/// What pools hold.
pub const POOL_USAGE: Metric = gauge(
    "karpenter_nodepools_usage",
    "Capacity of the nodes of a NodePool, from its status",
    &["resource_type", "nodepool"],
);
/// What pools cost.
pub const POOL_COST: Metric = gauge(
    "karpenter_nodepools_cost_total",
    "Current price of the nodes of a NodePool, in dollars per hour; without nodes of unknown price",
    &["nodepool"],
);
/// Nodes whose price is not known.
pub const UNPRICED: Metric =
    gauge("kerf_nodes_unpriced_count", "Nodes of unknown price, which no cost metric includes", &[]);
/// Nodes by kind.
pub const NODES: Metric = gauge(
    "kerf_nodes_count",
    "Nodes by pool, instance type and capacity type; beyond 100 combinations the rarest are reported as type other",
    &["nodepool", "instance_type", "capacity_type"],
);
/// What workloads cost.
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
/// Pods that do not run.
pub const UNSTARTED: Metric = gauge(
    "karpenter_pods_unstarted_time_seconds",
    "Age of pods that are not running in seconds; the 10 oldest",
    &["name", "namespace"],
);
/// How long pods wait for a node.
pub const BOUND: Metric = Metric {
    name: "karpenter_pods_bound_duration_seconds",
    help: "Seconds from the creation of a pod to its binding",
    kind: Kind::Histogram(DURATIONS),
    labels: &[],
};
/// How long pods take to run.
pub const STARTUP: Metric = Metric {
    name: "karpenter_pods_startup_duration_seconds",
    help: "Seconds from the creation of a pod until it was ready; a histogram, Karpenter has a summary",
    kind: Kind::Histogram(DURATIONS),
    labels: &[],
};
/// Pods of which no plan has said anything.
pub const UNDECIDED: Metric = gauge(
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    "Age of unscheduled pods that no plan has contained yet, in seconds; the 10 oldest",
    &["name", "namespace"],
);
/// Pods with a place and no node.
pub const PLACED_UNBOUND: Metric = gauge(
    "karpenter_pods_provisioning_unbound_time_seconds",
    "Seconds since the first nomination of unscheduled pods; the 10 oldest",
    &["name", "namespace"],
);
/// Pods with a place that do not run.
pub const PLACED_UNSTARTED: Metric = gauge(
    "karpenter_pods_provisioning_unstarted_time_seconds",
    "Seconds since the first nomination of pods that are not running; the 10 oldest",
    &["name", "namespace"],
);
/// How long pods with a place wait for their node.
pub const PLACED_BOUND: Metric = Metric {
    name: "karpenter_pods_provisioning_bound_duration_seconds",
    help: "Seconds from the first nomination of a pod to its binding",
    kind: Kind::Histogram(STEPS),
    labels: &[],
};
/// How long pods with a place take to run.
pub const PLACED_STARTUP: Metric = Metric {
    name: "karpenter_pods_provisioning_startup_duration_seconds",
    help: "Seconds from the first nomination of a pod until it was ready",
    kind: Kind::Histogram(STEPS),
    labels: &[],
};
/// What types cost.
pub const OFFERING_PRICE: Metric = gauge(
    "karpenter_cloudprovider_instance_type_offering_price_estimate",
    "Price of the 10 most used instance types, in dollars per hour",
    OFFERING,
);
/// What can be had.
pub const OFFERING_AVAILABLE: Metric = gauge(
    "karpenter_cloudprovider_instance_type_offering_available",
    "1 if the offering is available, else 0; of the 10 most used instance types",
    OFFERING,
);
/// Cores of types.
pub const TYPE_CORES: Metric = gauge(
    "karpenter_cloudprovider_instance_type_cpu_cores",
    "Cores of the 10 most used instance types",
    &["instance_type"],
);
/// Memory of types.
pub const TYPE_MEMORY: Metric = gauge(
    "karpenter_cloudprovider_instance_type_memory_bytes",
    "Memory of the 10 most used instance types, in bytes",
    &["instance_type"],
);
