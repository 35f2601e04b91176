//! The controller's metrics: the one place where their names, labels and meanings stand.

mod aws;
pub mod collector;
pub mod conditions;
pub mod counters;
mod disruption;
pub mod fleet;
pub mod gauge_set;
pub mod node_conditions;

use daemon::metric::{Kind, Metric};

pub use aws::{
    BATCH_SIZE, CLOUD_CALLS, CLOUD_DURATION, CLOUD_ERRORS, CLOUD_WAITING, LAUNCH_FAILURES, MESSAGE_DURATION,
    MESSAGES_DELETED, MESSAGES_RECEIVED, PRICE_REFRESHES, PRICE_SOURCE, PRICE_TIME, PRICES, QUEUE_REACHABLE,
    STATUS_UNHEALTHY,
};
pub use disruption::{CONSOLIDATION_MOVES, CONSOLIDATION_SCORE, DECISIONS, DECISIONS_BY_POOL};

/// Karpenter's buckets for durations, in seconds.
const DURATIONS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 120.0,
    150.0, 300.0, 450.0, 600.0,
];

/// How long an end takes, in seconds.
const ENDINGS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0];

/// The same with fewer steps, in seconds: for what has many series.
const STEPS: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0];

/// The same with fewer steps: where Karpenter has a summary, or the same is told by pool.
const ENDS: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

/// From 15 minutes to 30 days, in seconds.
const LIFETIMES: &[f64] = &[900.0, 3600.0, 21_600.0, 86_400.0, 259_200.0, 604_800.0, 1_296_000.0, 2_592_000.0];

/// NodeClaims that were created.
pub const CLAIMS_CREATED: Metric = Metric {
    name: "karpenter_nodeclaims_created_total",
    help: "NodeClaims created, by reason and pool",
    kind: Kind::Counter,
    labels: &["reason", "nodepool"],
};
/// NodeClaims that were deleted by the controller.
pub const CLAIMS_DISRUPTED: Metric = Metric {
    name: "karpenter_nodeclaims_disrupted_total",
    help: "NodeClaims deleted by the controller, by reason, pool and capacity type (empty before the launch)",
    kind: Kind::Counter,
    labels: &["reason", "nodepool", "capacity_type"],
};
/// How large user data becomes.
pub const USER_DATA_BYTES: Metric = Metric {
    name: "karpenter_ec2nodeclasses_userdata_bytes",
    help: "Bytes of the largest user data that a class's machines get, before base64; EC2 takes 16,384",
    kind: Kind::Gauge,
    labels: &["nodeclass"],
};
/// NodeClaims that were deleted because their nodes are sick.
pub const UNHEALTHY_DISRUPTED: Metric = Metric {
    name: "karpenter_nodeclaims_unhealthy_disrupted_total",
    help: "NodeClaims deleted because their node was sick, by the condition that says so, pool, capacity type and image",
    kind: Kind::Counter,
    labels: &["condition", "nodepool", "capacity_type", "image_id"],
};
/// NodeClaims that are gone.
pub const CLAIMS_TERMINATED: Metric = Metric {
    name: "karpenter_nodeclaims_terminated_total",
    help: "NodeClaims whose instance is gone, by pool, capacity type and zone",
    kind: Kind::Counter,
    labels: &["nodepool", "capacity_type", "zone"],
};
/// How long claims take to go.
pub const CLAIM_TERMINATION: Metric = Metric {
    name: "karpenter_nodeclaims_termination_duration_seconds",
    help: "From a NodeClaim's deletion to its end, in seconds, by pool",
    kind: Kind::Histogram(ENDINGS),
    labels: &["nodepool"],
};
/// How long instances take to end.
pub const INSTANCE_TERMINATION: Metric = Metric {
    name: "karpenter_nodeclaims_instance_termination_duration_seconds",
    help: "From the order to end an instance to its end, in seconds, by pool",
    kind: Kind::Histogram(ENDINGS),
    labels: &["nodepool"],
};
/// Nodes that registered.
pub const NODES_CREATED: Metric = Metric {
    name: "karpenter_nodes_created_total",
    help: "Nodes that registered, by pool and zone",
    kind: Kind::Counter,
    labels: &["nodepool", "zone"],
};
/// Nodes that are gone.
pub const NODES_TERMINATED: Metric = Metric {
    name: "karpenter_nodes_terminated_total",
    help: "Nodes that were let go, by pool and zone",
    kind: Kind::Counter,
    labels: &["nodepool", "zone"],
};
/// Nodes that were emptied before they went.
pub const NODES_DRAINED: Metric = Metric {
    name: "karpenter_nodes_drained_total",
    help: "Nodes that were empty when they were let go, by pool",
    kind: Kind::Counter,
    labels: &["nodepool"],
};
/// How long nodes take to go.
pub const NODE_TERMINATION: Metric = Metric {
    name: "karpenter_nodes_termination_duration_seconds",
    help: "From a Node's deletion to its end, in seconds, by pool",
    kind: Kind::Histogram(ENDS),
    labels: &["nodepool"],
};
/// How old nodes become.
pub const NODE_LIFETIME: Metric = Metric {
    name: "karpenter_nodes_lifetime_duration_seconds",
    help: "From a Node's creation to its end, in seconds, by pool",
    kind: Kind::Histogram(LIFETIMES),
    labels: &["nodepool"],
};
/// Pods that had to leave.
pub const PODS_DRAINED: Metric = Metric {
    name: "karpenter_pods_drained_total",
    help: "Pods that left nodes on their way out, by why the node went; counted when the node is let go",
    kind: Kind::Counter,
    labels: &["reason"],
};
/// Eviction requests by the API server's answer.
pub const EVICTION_REQUESTS: Metric = Metric {
    name: "karpenter_pods_eviction_requests_total",
    help: "Eviction requests, by HTTP status of the answer (0: none came)",
    kind: Kind::Counter,
    labels: &["code"],
};
/// How long a plan takes.
pub const SCHEDULING_DURATION: Metric = Metric {
    name: "karpenter_scheduler_scheduling_duration_seconds",
    help: "Time to plan once, snapshot included, in seconds",
    kind: Kind::Histogram(DURATIONS),
    labels: &[],
};
/// How long a plan takes, for nodes.
pub const EVALUATION_DURATION: Metric = Metric {
    name: "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
    help: "Time to plan once, in seconds: all nodes are judged for all reasons in one plan, so reason and consolidation_type are empty",
    kind: Kind::Histogram(STEPS),
    labels: &["reason", "consolidation_type"],
};
/// How long pods wait for a word.
pub const DECISION: Metric = Metric {
    name: "karpenter_pods_scheduling_decision_duration_seconds",
    help: "From a pod's creation to the first plan that says anything of it, in seconds",
    kind: Kind::Histogram(STEPS),
    labels: &[],
};
/// Pods by zone.
pub const PENDING_BY_ZONE: Metric = Metric {
    name: "karpenter_scheduler_pending_pods_by_effective_zone_count",
    help: "Pods that the last plan had to place, by the one zone that their selector and affinity leave; empty where they leave several",
    kind: Kind::Gauge,
    labels: &["zone"],
};
/// Pods without a place after the last plan.
pub const UNSCHEDULABLE_PODS: Metric = Metric {
    name: "karpenter_scheduler_unschedulable_pods_count",
    help: "Pods for which the last plan found no place",
    kind: Kind::Gauge,
    labels: &[],
};
/// Pods that the last plan left aside.
pub const IGNORED_PODS: Metric = Metric {
    name: "karpenter_scheduler_ignored_pods_count",
    help: "Pods that the last plan left aside, each with an event that says why",
    kind: Kind::Gauge,
    labels: &[],
};
/// Nodes and claims in the index.
pub const NODE_COUNT: Metric = Metric {
    name: "karpenter_cluster_state_node_count",
    help: "Nodes that the controller sees",
    kind: Kind::Gauge,
    labels: &[],
};
/// Gates of nodes that are closed.
pub const GATES_CLOSED: Metric = Metric {
    name: "kerf_nodes_gate_closed",
    help: "Nodes whose agent keeps them from serving, by pool and the gate that is closed",
    kind: Kind::Gauge,
    labels: &["nodepool", "gate"],
};
/// Nodes that are ill.
pub const NODES_UNHEALTHY: Metric = Metric {
    name: "kerf_nodes_unhealthy",
    help: "Nodes with a False health condition (KernelReady, StorageReady, ...), by pool, condition and reason",
    kind: Kind::Gauge,
    labels: &["nodepool", "condition", "reason"],
};
/// Whether every watch has listed once.
pub const SYNCED: Metric = Metric {
    name: "karpenter_cluster_state_synced",
    help: "1 once every watch has listed, else 0",
    kind: Kind::Gauge,
    labels: &[],
};
/// Nodes that could go.
pub const ELIGIBLE_NODES: Metric = Metric {
    name: "karpenter_voluntary_disruption_eligible_nodes",
    help: "Nodes that the last plan would take away, budgets aside, by reason",
    kind: Kind::Gauge,
    labels: &["reason"],
};
/// Replacements in vain.
pub const QUEUE_FAILURES: Metric = Metric {
    name: "karpenter_voluntary_disruption_queue_failures_total",
    help: "Replacements that never came up, so that the nodes of their move stayed, by decision, reason and type of consolidation",
    kind: Kind::Counter,
    labels: &["decision", "reason", "consolidation_type"],
};
/// Moves that were dropped while they waited.
pub const FAILED_VALIDATIONS: Metric = Metric {
    name: "karpenter_voluntary_disruption_failed_validations_total",
    help: "Moves that something changed for before they were begun, by type of consolidation",
    kind: Kind::Counter,
    labels: &["consolidation_type"],
};
/// What budgets leave.
pub const ALLOWED_DISRUPTIONS: Metric = Metric {
    name: "karpenter_nodepools_allowed_disruptions",
    help: "Nodes that may still be taken away at the moment, by pool and reason: what budgets allow, less those that are disrupted already",
    kind: Kind::Gauge,
    labels: &["nodepool", "reason"],
};
/// What uses budgets up.
pub const CONSUMING_BUDGETS: Metric = Metric {
    name: "karpenter_nodepools_nodes_consuming_budgets",
    help: "Nodes that are on their way out or not ready and so use up budgets, by pool and reason",
    kind: Kind::Gauge,
    labels: &["nodepool", "reason"],
};
/// Steps of the writer.
pub const ACT_STEPS: Metric = Metric {
    name: "kerf_act_steps_total",
    help: "Writes to Kubernetes and AWS, by step and outcome",
    kind: Kind::Counter,
    labels: &["step", "outcome"],
};
/// Findings of the plan checker.
pub const PLAN_FINDINGS: Metric = Metric {
    name: "kerf_plan_findings_total",
    help: "Plans that the independent checker refused; more than 0 is a bug of Kerf",
    kind: Kind::Counter,
    labels: &[],
};

/// CPU that nodes stay within.
pub const USAGE_CPU: Metric = Metric {
    name: "kerf_node_usage_cpu_p95_cores",
    help: "CPU that each node's use does not exceed 95 % of the time, summed up by pool, in cores, as agents report",
    kind: Kind::Gauge,
    labels: &["nodepool"],
};
/// Memory that nodes stay within.
pub const USAGE_MEMORY: Metric = Metric {
    name: "kerf_node_usage_memory_p95_bytes",
    help: "Working set that each node's use does not exceed 95 % of the time, summed up by pool, in bytes, as agents report",
    kind: Kind::Gauge,
    labels: &["nodepool"],
};
/// How long processes wait.
pub const USAGE_PRESSURE: Metric = Metric {
    name: "kerf_node_usage_pressure_ratio",
    help: "Share of the time in which some process waited for cpu, memory or io, in the worst five minutes of the last hour, of the pool's worst node",
    kind: Kind::Gauge,
    labels: &["nodepool", "resource"],
};
/// Processes killed for want of memory.
pub const USAGE_OOM_KILLS: Metric = Metric {
    name: "kerf_node_usage_oom_kills",
    help: "Processes that kernels of the pool's nodes killed for want of memory within 24 hours",
    kind: Kind::Gauge,
    labels: &["nodepool"],
};
/// Nodes whose use is known.
pub const USAGE_REPORTS: Metric = Metric {
    name: "kerf_node_usage_reports_count",
    help: "Nodes with a report that counts (current), and reports that are stale or of another machine (ignored)",
    kind: Kind::Gauge,
    labels: &["state"],
};

/// What pods request beyond what they would do with.
pub const REQUESTS_ABOVE_USE: Metric = Metric {
    name: "kerf_pods_requests_above_use",
    help: "What pods of the pool request beyond what they would do with by what they use, in cores or bytes; of pools that observe, and of those that pack where pods cannot be resized",
    kind: Kind::Gauge,
    labels: &["nodepool", "resource"],
};
/// Requests that were changed where their pods are.
pub const RESIZES: Metric = Metric {
    name: "kerf_pods_resizes_total",
    help: "Changes of what a pod requests where it is, by reason (makes_room, or back up: pressure, grown, unpacked; no_room where it only remembers that it should) and outcome (success, error)",
    kind: Kind::Counter,
    labels: &["reason", "outcome"],
};
/// Pods that hold their nodes for ever.
pub const NEVER_EVICTED: Metric = Metric {
    name: "kerf_pods_never_evicted_count",
    help: "Pods that no eviction will ever take, for their PodDisruptionBudget wants all of them to stay or more than one selects them, by the pool of their node",
    kind: Kind::Gauge,
    labels: &["nodepool"],
};
/// What lowered requests are good for.
pub const SAVED_BY_USAGE: Metric = Metric {
    name: "kerf_consolidation_saving_from_usage_dollars_per_hour",
    help: "What the last plan's moves save, or will, that have room only because requests were lowered, in dollars per hour",
    kind: Kind::Gauge,
    labels: &[],
};

/// What started.
pub const BUILD_INFO: Metric = Metric {
    name: "karpenter_build_info",
    help: "1, with the version and the architecture that it was built for; goversion is empty, and commit too",
    kind: Kind::Gauge,
    labels: &["version", "goversion", "goarch", "commit"],
};
/// How long watches have not listed.
pub const UNSYNCED_TIME: Metric = Metric {
    name: "karpenter_cluster_state_unsynced_time_seconds",
    help: "For how long not every watch has listed, in seconds; 0 once all have",
    kind: Kind::Gauge,
    labels: &[],
};
/// Plans that stopped looking.
pub const CONSOLIDATION_TIMEOUTS: Metric = Metric {
    name: "karpenter_voluntary_disruption_consolidation_timeouts_total",
    help: "Plans that used their steps up before every node was looked at; the next one goes on with the rest",
    kind: Kind::Counter,
    labels: &["consolidation_type"],
};
/// How drains ended.
pub const DRAINS: Metric = Metric {
    name: "kerf_drains_total",
    help: "Nodes that were let go, by pool and outcome: clean, forced (pods were deleted against their budget), cut_short (pods were left)",
    kind: Kind::Counter,
    labels: &["nodepool", "outcome"],
};

/// All of them.
pub const TABLE: &[Metric] = &[
    CLAIMS_CREATED,
    CLAIMS_DISRUPTED,
    UNHEALTHY_DISRUPTED,
    USER_DATA_BYTES,
    CLAIMS_TERMINATED,
    CLAIM_TERMINATION,
    INSTANCE_TERMINATION,
    NODES_CREATED,
    NODES_TERMINATED,
    NODES_DRAINED,
    PODS_DRAINED,
    NODE_TERMINATION,
    NODE_LIFETIME,
    EVICTION_REQUESTS,
    SCHEDULING_DURATION,
    EVALUATION_DURATION,
    DECISION,
    PENDING_BY_ZONE,
    BATCH_SIZE,
    UNSCHEDULABLE_PODS,
    IGNORED_PODS,
    NODE_COUNT,
    GATES_CLOSED,
    NODES_UNHEALTHY,
    SYNCED,
    DECISIONS,
    DECISIONS_BY_POOL,
    CONSOLIDATION_SCORE,
    CONSOLIDATION_MOVES,
    ELIGIBLE_NODES,
    QUEUE_FAILURES,
    FAILED_VALIDATIONS,
    ALLOWED_DISRUPTIONS,
    CONSUMING_BUDGETS,
    ACT_STEPS,
    PLAN_FINDINGS,
    LAUNCH_FAILURES,
    MESSAGES_RECEIVED,
    MESSAGES_DELETED,
    MESSAGE_DURATION,
    STATUS_UNHEALTHY,
    QUEUE_REACHABLE,
    USAGE_CPU,
    USAGE_MEMORY,
    USAGE_PRESSURE,
    USAGE_OOM_KILLS,
    USAGE_REPORTS,
    REQUESTS_ABOVE_USE,
    RESIZES,
    NEVER_EVICTED,
    SAVED_BY_USAGE,
    PRICE_SOURCE,
    PRICE_TIME,
    PRICES,
    PRICE_REFRESHES,
    CLOUD_CALLS,
    CLOUD_WAITING,
    BUILD_INFO,
    UNSYNCED_TIME,
    CONSOLIDATION_TIMEOUTS,
    DRAINS,
    CLOUD_DURATION,
    CLOUD_ERRORS,
    fleet::ALLOCATABLE,
    fleet::POD_REQUESTS,
    fleet::POD_LIMITS,
    fleet::DAEMON_REQUESTS,
    fleet::DAEMON_LIMITS,
    fleet::OVERHEAD,
    fleet::OLDEST_NODE,
    fleet::UTILIZATION,
    fleet::POOL_LIMIT,
    fleet::POOL_USAGE,
    fleet::POOL_COST,
    fleet::UNPRICED,
    fleet::NODES,
    fleet::WORKLOAD_COST,
    fleet::WORKLOAD_PODS,
    fleet::PODS,
    fleet::UNBOUND,
    fleet::UNSTARTED,
    fleet::BOUND,
    fleet::STARTUP,
    fleet::UNDECIDED,
    fleet::PLACED_UNBOUND,
    fleet::PLACED_UNSTARTED,
    fleet::PLACED_BOUND,
    fleet::PLACED_STARTUP,
    conditions::CLAIMS.count,
    conditions::CLAIMS.transitions,
    conditions::CLAIMS.held,
    conditions::CLAIMS.current,
    conditions::CLAIMS.ending,
    conditions::CLAIMS.ended,
    conditions::NODES.count,
    conditions::NODES.transitions,
    conditions::NODES.held,
    conditions::NODES.current,
    conditions::NODES.ending,
    conditions::NODES.ended,
    conditions::POOLS.count,
    conditions::POOLS.transitions,
    conditions::POOLS.held,
    conditions::POOLS.current,
    conditions::POOLS.ending,
    conditions::POOLS.ended,
    conditions::CLASSES.count,
    conditions::CLASSES.transitions,
    conditions::CLASSES.held,
    conditions::CLASSES.current,
    conditions::CLASSES.ending,
    conditions::CLASSES.ended,
    fleet::OFFERING_PRICE,
    fleet::OFFERING_AVAILABLE,
    fleet::TYPE_CORES,
    fleet::TYPE_MEMORY,
];
