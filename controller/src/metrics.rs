//! Metrics of the controller, with their names, labels and meanings.

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

/// Buckets for the duration of terminations, in seconds.
const ENDINGS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0];

/// Buckets for durations with fewer steps, in seconds: for metrics with many series.
const STEPS: &[f64] = &[0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0];

/// Buckets for terminations with fewer steps, in seconds: for summaries of Karpenter, and for metrics that are also reported by
/// NodePool.
const ENDS: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1024.0];

/// Buckets from 15 minutes to 30 days, in seconds.
const LIFETIMES: &[f64] = &[900.0, 3600.0, 21_600.0, 86_400.0, 259_200.0, 604_800.0, 1_296_000.0, 2_592_000.0];

/// Created NodeClaims.
pub const CLAIMS_CREATED: Metric = Metric {
    name: "karpenter_nodeclaims_created_total",
    help: "NodeClaims created, by reason and pool",
    kind: Kind::Counter,
    labels: &["reason", "nodepool"],
};
/// NodeClaims that the controller deleted.
pub const CLAIMS_DISRUPTED: Metric = Metric {
    name: "karpenter_nodeclaims_disrupted_total",
    help: "NodeClaims deleted by the controller, by reason, pool and capacity type (empty before the launch)",
    kind: Kind::Counter,
    labels: &["reason", "nodepool", "capacity_type"],
};
/// Size of the largest user data.
pub const USER_DATA_BYTES: Metric = Metric {
    name: "karpenter_ec2nodeclasses_userdata_bytes",
    help: "Bytes of the largest user data that a class's machines get, before base64; EC2 takes 16,384",
    kind: Kind::Gauge,
    labels: &["nodeclass"],
};
/// NodeClaims deleted because of unhealthy nodes.
pub const UNHEALTHY_DISRUPTED: Metric = Metric {
    name: "karpenter_nodeclaims_unhealthy_disrupted_total",
    help: "NodeClaims deleted because their node was unhealthy, by condition, pool, capacity type and image",
    kind: Kind::Counter,
    labels: &["condition", "nodepool", "capacity_type", "image_id"],
};
/// Removed NodeClaims.
pub const CLAIMS_TERMINATED: Metric = Metric {
    name: "karpenter_nodeclaims_terminated_total",
    help: "NodeClaims whose instance terminated, by pool, capacity type and zone",
    kind: Kind::Counter,
    labels: &["nodepool", "capacity_type", "zone"],
};
/// Duration of the termination of NodeClaims.
pub const CLAIM_TERMINATION: Metric = Metric {
    name: "karpenter_nodeclaims_termination_duration_seconds",
    help: "Seconds from the deletion of a NodeClaim to its removal, by pool",
    kind: Kind::Histogram(ENDINGS),
    labels: &["nodepool"],
};
/// Duration of the termination of instances.
pub const INSTANCE_TERMINATION: Metric = Metric {
    name: "karpenter_nodeclaims_instance_termination_duration_seconds",
    help: "Seconds from TerminateInstances to the end of the instance, by pool",
    kind: Kind::Histogram(ENDINGS),
    labels: &["nodepool"],
};
/// Registered nodes.
pub const NODES_CREATED: Metric = Metric {
    name: "karpenter_nodes_created_total",
    help: "Nodes that registered, by pool and zone",
    kind: Kind::Counter,
    labels: &["nodepool", "zone"],
};
/// Removed nodes.
pub const NODES_TERMINATED: Metric = Metric {
    name: "karpenter_nodes_terminated_total",
    help: "Terminated nodes, by pool and zone",
    kind: Kind::Counter,
    labels: &["nodepool", "zone"],
};
/// Nodes that were drained before their removal.
pub const NODES_DRAINED: Metric = Metric {
    name: "karpenter_nodes_drained_total",
    help: "Nodes that were drained at termination, by pool",
    kind: Kind::Counter,
    labels: &["nodepool"],
};
/// Duration of the termination of nodes.
pub const NODE_TERMINATION: Metric = Metric {
    name: "karpenter_nodes_termination_duration_seconds",
    help: "Seconds from the deletion of a Node to its removal, by pool",
    kind: Kind::Histogram(ENDS),
    labels: &["nodepool"],
};
/// Age of nodes at their removal.
pub const NODE_LIFETIME: Metric = Metric {
    name: "karpenter_nodes_lifetime_duration_seconds",
    help: "Seconds from the creation of a Node to its removal, by pool",
    kind: Kind::Histogram(LIFETIMES),
    labels: &["nodepool"],
};
/// Drained pods.
pub const PODS_DRAINED: Metric = Metric {
    name: "karpenter_pods_drained_total",
    help: "Pods drained from terminated nodes, by reason; counted when the drain ends",
    kind: Kind::Counter,
    labels: &["reason"],
};
/// Eviction requests by the status of the response.
pub const EVICTION_REQUESTS: Metric = Metric {
    name: "karpenter_pods_eviction_requests_total",
    help: "Eviction requests, by HTTP status (0: no response)",
    kind: Kind::Counter,
    labels: &["code"],
};
/// Duration of a plan.
pub const SCHEDULING_DURATION: Metric = Metric {
    name: "karpenter_scheduler_scheduling_duration_seconds",
    help: "Seconds per plan, including the snapshot",
    kind: Kind::Histogram(DURATIONS),
    labels: &[],
};
/// Duration of a plan, as Karpenter's metric of disruption.
pub const EVALUATION_DURATION: Metric = Metric {
    name: "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
    help: "Seconds per plan; one plan evaluates all nodes for all reasons, so reason and consolidation_type are empty",
    kind: Kind::Histogram(STEPS),
    labels: &["reason", "consolidation_type"],
};
/// Time from the creation of a pod to its first decision.
pub const DECISION: Metric = Metric {
    name: "karpenter_pods_scheduling_decision_duration_seconds",
    help: "Seconds from the creation of a pod to the first plan that contains it",
    kind: Kind::Histogram(STEPS),
    labels: &[],
};
/// Pending pods by zone.
pub const PENDING_BY_ZONE: Metric = Metric {
    name: "karpenter_scheduler_pending_pods_by_effective_zone_count",
    help: "Pending pods in the last plan, by the zone that their node selector and affinity require; empty for \
           several zones",
    kind: Kind::Gauge,
    labels: &["zone"],
};
/// Unschedulable pods of the last plan.
pub const UNSCHEDULABLE_PODS: Metric = Metric {
    name: "karpenter_scheduler_unschedulable_pods_count",
    help: "Unschedulable pods in the last plan",
    kind: Kind::Gauge,
    labels: &[],
};
/// Pods that the last plan ignored.
pub const IGNORED_PODS: Metric = Metric {
    name: "karpenter_scheduler_ignored_pods_count",
    help: "Pods that the last plan ignored; each has an event with the reason",
    kind: Kind::Gauge,
    labels: &[],
};
/// Nodes in the index.
pub const NODE_COUNT: Metric = Metric {
    name: "karpenter_cluster_state_node_count",
    help: "Nodes in the controller's index",
    kind: Kind::Gauge,
    labels: &[],
};
/// Nodes with a closed gate.
pub const GATES_CLOSED: Metric = Metric {
    name: "kerf_nodes_gate_closed",
    help: "Nodes with a closed gate, by pool and gate",
    kind: Kind::Gauge,
    labels: &["nodepool", "gate"],
};
/// Unhealthy nodes.
pub const NODES_UNHEALTHY: Metric = Metric {
    name: "kerf_nodes_unhealthy",
    help: "Nodes with a False health condition (KernelReady, StorageReady, ...), by pool, condition and reason",
    kind: Kind::Gauge,
    labels: &["nodepool", "condition", "reason"],
};
/// State of the first sync of all watches.
pub const SYNCED: Metric = Metric {
    name: "karpenter_cluster_state_synced",
    help: "1 when all watches are synced, else 0",
    kind: Kind::Gauge,
    labels: &[],
};
/// Nodes that could be disrupted.
pub const ELIGIBLE_NODES: Metric = Metric {
    name: "karpenter_voluntary_disruption_eligible_nodes",
    help: "Nodes that the last plan could disrupt without budgets, by reason",
    kind: Kind::Gauge,
    labels: &["reason"],
};
/// Commands with a failed replacement.
pub const QUEUE_FAILURES: Metric = Metric {
    name: "karpenter_voluntary_disruption_queue_failures_total",
    help: "Commands rolled back because a replacement failed, by decision, reason and type of consolidation",
    kind: Kind::Counter,
    labels: &["decision", "reason", "consolidation_type"],
};
/// Commands that failed consolidation validation.
pub const FAILED_VALIDATIONS: Metric = Metric {
    name: "karpenter_voluntary_disruption_failed_validations_total",
    help: "Commands that failed consolidation validation, by type of consolidation",
    kind: Kind::Counter,
    labels: &["consolidation_type"],
};
/// Disruptions that budgets allow.
pub const ALLOWED_DISRUPTIONS: Metric = Metric {
    name: "karpenter_nodepools_allowed_disruptions",
    help: "Nodes that may be disrupted now, by pool and reason: the budget less nodes that are already disrupted",
    kind: Kind::Gauge,
    labels: &["nodepool", "reason"],
};
/// Nodes that consume budgets.
pub const CONSUMING_BUDGETS: Metric = Metric {
    name: "karpenter_nodepools_nodes_consuming_budgets",
    help: "Nodes that are being disrupted or not ready and so consume budgets, by pool and reason",
    kind: Kind::Gauge,
    labels: &["nodepool", "reason"],
};
/// Operations of the writer.
pub const ACT_STEPS: Metric = Metric {
    name: "kerf_act_steps_total",
    help: "Writes to Kubernetes and AWS, by operation and outcome",
    kind: Kind::Counter,
    labels: &["step", "outcome"],
};
/// Findings of the validation of plans.
pub const PLAN_FINDINGS: Metric = Metric {
    name: "kerf_plan_findings_total",
    help: "Plans that failed validation; more than 0 is a bug of Kerf",
    kind: Kind::Counter,
    labels: &[],
};

/// CPU utilization of nodes, 95th percentile.
pub const USAGE_CPU: Metric = Metric {
    name: "kerf_node_usage_cpu_p95_cores",
    help: "95th percentile of CPU utilization per node in cores, summed by pool, as agents report",
    kind: Kind::Gauge,
    labels: &["nodepool"],
};
/// Memory utilization of nodes, 95th percentile.
pub const USAGE_MEMORY: Metric = Metric {
    name: "kerf_node_usage_memory_p95_bytes",
    help: "95th percentile of the working set per node in bytes, summed by pool, as agents report",
    kind: Kind::Gauge,
    labels: &["nodepool"],
};
/// Pressure stall of nodes.
pub const USAGE_PRESSURE: Metric = Metric {
    name: "kerf_node_usage_pressure_ratio",
    help: "Highest pressure (PSI some) of cpu, memory or io in five minutes of the last hour, of the worst node of \
           the pool",
    kind: Kind::Gauge,
    labels: &["nodepool", "resource"],
};
/// OOM kills.
pub const USAGE_OOM_KILLS: Metric = Metric {
    name: "kerf_node_usage_oom_kills",
    help: "OOM kills on nodes of the pool in 24 hours",
    kind: Kind::Gauge,
    labels: &["nodepool"],
};
/// Nodes with a valid NodeUsage.
pub const USAGE_REPORTS: Metric = Metric {
    name: "kerf_node_usage_reports_count",
    help: "Nodes with a valid NodeUsage (current), and NodeUsages that are stale or of another instance (ignored)",
    kind: Kind::Gauge,
    labels: &["state"],
};

/// Requests of pods above the recommendation.
pub const REQUESTS_ABOVE_USE: Metric = Metric {
    name: "kerf_pods_requests_above_use",
    help: "Requests above the recommendation, in cores or bytes; for pools that observe, and for pools that pack \
           where pods cannot be resized",
    kind: Kind::Gauge,
    labels: &["nodepool", "resource"],
};
/// Resizes of running pods.
pub const RESIZES: Metric = Metric {
    name: "kerf_pods_resizes_total",
    help: "Resizes of running pods, by reason (makes_room, or restored: pressure, grown, unpacked; no_room: only \
           recorded) and outcome (success, error)",
    kind: Kind::Counter,
    labels: &["reason", "outcome"],
};
/// Pods that can never be evicted.
pub const NEVER_EVICTED: Metric = Metric {
    name: "kerf_pods_never_evicted_count",
    help: "Pods that can never be evicted, because a PodDisruptionBudget allows no disruption or several select \
           them, by pool",
    kind: Kind::Gauge,
    labels: &["nodepool"],
};
/// Savings from lower requests.
pub const SAVED_BY_USAGE: Metric = Metric {
    name: "kerf_consolidation_saving_from_usage_dollars_per_hour",
    help: "Savings of the last plan that lower requests made possible, in dollars per hour",
    kind: Kind::Gauge,
    labels: &[],
};

/// Version and architecture of the controller.
pub const BUILD_INFO: Metric = Metric {
    name: "karpenter_build_info",
    help: "1, with the version and the architecture that it was built for; goversion is empty, and commit too",
    kind: Kind::Gauge,
    labels: &["version", "goversion", "goarch", "commit"],
};
/// Time without a sync of all watches.
pub const UNSYNCED_TIME: Metric = Metric {
    name: "karpenter_cluster_state_unsynced_time_seconds",
    help: "Seconds in which not all watches are synced; 0 when all are",
    kind: Kind::Gauge,
    labels: &[],
};
/// Plans that exhausted their step budget.
pub const CONSOLIDATION_TIMEOUTS: Metric = Metric {
    name: "karpenter_voluntary_disruption_consolidation_timeouts_total",
    help: "Plans that exhausted their step budget; the next plan continues",
    kind: Kind::Counter,
    labels: &["consolidation_type"],
};
/// Ended drains by outcome.
pub const DRAINS: Metric = Metric {
    name: "kerf_drains_total",
    help: "Ended drains, by pool and outcome: clean, forced (pods were deleted against their budget), cut_short \
           (pods were left)",
    kind: Kind::Counter,
    labels: &["nodepool", "outcome"],
};

/// All metrics of the controller.
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
