//! Nodes: their life, health and drains.

use daemon::metric::{Counter, Gauge, Histogram};
use daemon::metrics;

use super::buckets::{ENDS, LIFETIMES, STAGES};
use super::labels::{
    ByCode, ByNodePool, ByNodePoolConditionReason, ByNodePoolGate, ByNodePoolOutcome, ByNodePoolZone, ByReason, ByStage,
};

metrics! {
    table NODE_METRICS;
    NODES_CREATED: Counter<ByNodePoolZone> = (
        "karpenter_nodes_created_total",
        "Nodes that registered, by pool and zone"
    );
    START_STAGES: Histogram<ByStage> = (
        "kerf_nodes_start_stage_duration_seconds",
        "Seconds of the stages of a node's start, each since the one before it: from the creation of the pod that needed \
         the node to its readiness (pod-unschedulable, planned, nodeclaim-created, launched, kernel-started, \
         systemd-started, agent-started, kubelet-up, registered, initialized, pod-scheduled, containers-started, \
         pod-ready); without such a pod from the creation of the NodeClaim to initialized",
        STAGES
    );
    NODES_TERMINATED: Counter<ByNodePoolZone> = (
        "karpenter_nodes_terminated_total",
        "Terminated nodes, by pool and zone"
    );
    NODES_DRAINED: Counter<ByNodePool> = (
        "karpenter_nodes_drained_total",
        "Nodes that were drained at termination, by pool"
    );
    NODE_TERMINATION: Histogram<ByNodePool> = (
        "karpenter_nodes_termination_duration_seconds",
        "Seconds from the deletion of a Node to its removal, by pool",
        ENDS
    );
    NODE_LIFETIME: Histogram<ByNodePool> = (
        "karpenter_nodes_lifetime_duration_seconds",
        "Seconds from the creation of a Node to its removal, by pool",
        LIFETIMES
    );
    PODS_DRAINED: Counter<ByReason> = (
        "karpenter_pods_drained_total",
        "Pods drained from terminated nodes, by reason; counted when the drain ends"
    );
    EVICTION_REQUESTS: Counter<ByCode> = (
        "karpenter_pods_eviction_requests_total",
        "Eviction requests, by HTTP status (0: no response)"
    );
    NEVER_EVICTED: Gauge<ByNodePool> = (
        "kerf_pods_never_evicted_count",
        "Pods that can never be evicted, because a PodDisruptionBudget allows no disruption or several select them, \
         by pool"
    );
    DRAINS: Counter<ByNodePoolOutcome> = (
        "kerf_drains_total",
        "Ended drains, by pool and outcome: clean, forced (pods were deleted against their budget), cut_short (pods \
         were left)"
    );
    GATES_CLOSED: Gauge<ByNodePoolGate> = (
        "kerf_nodes_gate_closed",
        "Nodes with a closed gate, by pool and gate"
    );
    NODES_UNHEALTHY: Gauge<ByNodePoolConditionReason> = (
        "kerf_nodes_unhealthy",
        "Nodes with a False health condition (KernelReady, StorageReady, ...), by pool, condition and reason"
    );
}
