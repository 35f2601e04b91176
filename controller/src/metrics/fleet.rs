//! The metrics of what there is: nodes, pools, pods, what they cost and what they wait for. Karpenter tells most of them for each
//! node or pod; here they are told by pool, so that a thousand nodes do not become fifty thousand series.

use daemon::metric::{Kind, Metric};

use super::{DURATIONS, STEPS};

const fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str]) -> Metric {
    Metric { name, help, kind: Kind::Gauge, labels }
}

const BY_RESOURCE: &[&str] = &["nodepool", "resource_type"];
const OFFERING: &[&str] = &["instance_type", "capacity_type", "zone"];

/// What nodes have for pods.
pub const ALLOCATABLE: Metric =
    gauge("karpenter_nodes_allocatable", "What nodes have for pods, in cores, bytes or pieces, by pool", BY_RESOURCE);
/// What pods ask for.
pub const POD_REQUESTS: Metric = gauge(
    "karpenter_nodes_total_pod_requests",
    "What pods on nodes request, DaemonSets' included, by pool",
    BY_RESOURCE,
);
/// What pods may take.
pub const POD_LIMITS: Metric =
    gauge("karpenter_nodes_total_pod_limits", "Limits of pods on nodes, DaemonSets' included, by pool", BY_RESOURCE);
/// What pods of DaemonSets ask for.
pub const DAEMON_REQUESTS: Metric =
    gauge("karpenter_nodes_total_daemon_requests", "What DaemonSets' pods on nodes request, by pool", BY_RESOURCE);
/// What pods of DaemonSets may take.
pub const DAEMON_LIMITS: Metric =
    gauge("karpenter_nodes_total_daemon_limits", "Limits of DaemonSets' pods on nodes, by pool", BY_RESOURCE);
/// What is kept back.
pub const OVERHEAD: Metric =
    gauge("karpenter_nodes_system_overhead", "Capacity of nodes that is kept from pods, by pool", BY_RESOURCE);
/// How old nodes are.
pub const OLDEST_NODE: Metric =
    gauge("karpenter_nodes_current_lifetime_seconds", "Age of the pool's oldest node, in seconds", &["nodepool"]);
/// How full nodes are.
pub const UTILIZATION: Metric = gauge(
    "karpenter_cluster_utilization_percent",
    "Requests of pods against what nodes have for them, in percent",
    &["resource_type"],
);
/// What pools may hold.
pub const POOL_LIMIT: Metric =
    gauge("karpenter_nodepools_limit", "The limit of a NodePool", &["resource_type", "nodepool"]);
/// What pools hold.
pub const POOL_USAGE: Metric = gauge(
    "karpenter_nodepools_usage",
    "Capacity of a NodePool's nodes, as its status has it",
    &["resource_type", "nodepool"],
);
/// What pools cost.
pub const POOL_COST: Metric = gauge(
    "karpenter_nodepools_cost_total",
    "Price of a NodePool's nodes at today's prices, in dollars an hour; nodes whose price nobody knows are not in it",
    &["nodepool"],
);
/// Nodes whose price is not known.
pub const UNPRICED: Metric =
    gauge("kerf_nodes_unpriced_count", "Nodes whose price nobody knows, which all costs leave out", &[]);
/// Nodes by kind.
pub const NODES: Metric = gauge(
    "kerf_nodes_count",
    "Nodes by pool, instance type and capacity type; beyond 100 combinations the rarest are told as type other",
    &["nodepool", "instance_type", "capacity_type"],
);
/// What workloads cost.
pub const WORKLOAD_COST: Metric = gauge(
    "kerf_workload_cost_dollars_per_hour",
    "A workload's part of its nodes' prices, by its pods' requests, idle room shared out; the 50 dearest, then other",
    &["namespace", "workload"],
);
/// Pods of workloads.
pub const WORKLOAD_PODS: Metric =
    gauge("kerf_workload_pods_count", "Pods on nodes of the workloads whose cost is told", &["namespace", "workload"]);
/// Pods by state.
pub const PODS: Metric = gauge(
    "karpenter_pods_state",
    "Pods by the pool of their node, phase, and whether they are scheduled and ready",
    &["nodepool", "phase", "scheduled", "ready"],
);
/// Pods without a node.
pub const UNBOUND: Metric = gauge(
    "karpenter_pods_unbound_time_seconds",
    "Age of pods that have no node, in seconds; the 10 that wait longest",
    &["name", "namespace"],
);
/// Pods that do not run.
pub const UNSTARTED: Metric = gauge(
    "karpenter_pods_unstarted_time_seconds",
    "Age of pods that do not run yet, in seconds; the 10 that wait longest",
    &["name", "namespace"],
);
/// How long pods wait for a node.
pub const BOUND: Metric = Metric {
    name: "karpenter_pods_bound_duration_seconds",
    help: "From a pod's creation to its node, in seconds",
    kind: Kind::Histogram(DURATIONS),
    labels: &[],
};
/// How long pods take to run.
pub const STARTUP: Metric = Metric {
    name: "karpenter_pods_startup_duration_seconds",
    help: "From a pod's creation until it was ready, in seconds; a histogram, where Karpenter has a summary",
    kind: Kind::Histogram(DURATIONS),
    labels: &[],
};
/// Pods of which no plan has said anything.
pub const UNDECIDED: Metric = gauge(
    "karpenter_pods_provisioning_scheduling_undecided_time_seconds",
    "Age of pods without a node of which no plan has said anything, in seconds; the 10 that wait longest",
    &["name", "namespace"],
);
/// Pods with a place and no node.
pub const PLACED_UNBOUND: Metric = gauge(
    "karpenter_pods_provisioning_unbound_time_seconds",
    "For how long a plan has had a place for pods that have no node, in seconds; the 10 that wait longest",
    &["name", "namespace"],
);
/// Pods with a place that do not run.
pub const PLACED_UNSTARTED: Metric = gauge(
    "karpenter_pods_provisioning_unstarted_time_seconds",
    "For how long a plan has had a place for pods that do not run yet, in seconds; the 10 that wait longest",
    &["name", "namespace"],
);
/// How long pods with a place wait for their node.
pub const PLACED_BOUND: Metric = Metric {
    name: "karpenter_pods_provisioning_bound_duration_seconds",
    help: "From the first plan that has a place for a pod to its node, in seconds",
    kind: Kind::Histogram(STEPS),
    labels: &[],
};
/// How long pods with a place take to run.
pub const PLACED_STARTUP: Metric = Metric {
    name: "karpenter_pods_provisioning_startup_duration_seconds",
    help: "From the first plan that has a place for a pod until it was ready, in seconds",
    kind: Kind::Histogram(STEPS),
    labels: &[],
};
/// What types cost.
pub const OFFERING_PRICE: Metric = gauge(
    "karpenter_cloudprovider_instance_type_offering_price_estimate",
    "Price in dollars an hour of the 10 types that most nodes have",
    OFFERING,
);
/// What can be had.
pub const OFFERING_AVAILABLE: Metric = gauge(
    "karpenter_cloudprovider_instance_type_offering_available",
    "1 if it can be had as far as is known, else 0; of the 10 types that most nodes have",
    OFFERING,
);
/// Cores of types.
pub const TYPE_CORES: Metric = gauge(
    "karpenter_cloudprovider_instance_type_cpu_cores",
    "Cores of the 10 types that most nodes have",
    &["instance_type"],
);
/// Memory of types.
pub const TYPE_MEMORY: Metric = gauge(
    "karpenter_cloudprovider_instance_type_memory_bytes",
    "Memory of the 10 types that most nodes have, in bytes",
    &["instance_type"],
);
