//! Disruption commands, budgets and consolidation.

use daemon::metric::{Counter, Gauge, Histogram};
use daemon::metrics;

use super::buckets::STEPS;
use super::labels::{
    ByConsolidationType, ByDecisionNodePoolPolicy, ByDecisionReasonConsolidationType,
    ByNodePoolDecisionReasonConsolidationType, ByNodePoolReason, ByReason, ByReasonConsolidationType,
};

/// Karpenter's buckets for consolidation scores.
const SCORES: &[f64] = &[0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0];

metrics! {
    table DISRUPTION_METRICS;
    DECISIONS: Counter<ByDecisionReasonConsolidationType> = (
        "karpenter_voluntary_disruption_decisions_total",
        "Started commands, by decision (delete, replace), reason and type of consolidation"
    );
    DECISIONS_BY_POOL: Counter<ByNodePoolDecisionReasonConsolidationType> = (
        "karpenter_voluntary_disruption_decisions_by_nodepool_total",
        "Started commands per NodePool of their nodes, by decision, reason and type of consolidation"
    );
    CONSOLIDATION_SCORE: Histogram<ByDecisionNodePoolPolicy> = (
        "karpenter_consolidation_score",
        "Balance score of commands: share of the pool's cost saved over share of its disruption caused, by decision \
         (approved, rejected), pool and policy",
        SCORES
    );
    CONSOLIDATION_MOVES: Counter<ByDecisionNodePoolPolicy> = (
        "karpenter_consolidation_moves_total",
        "Consolidation commands that were started (approved), and nodes whose savings are too small for policy \
         Balanced (rejected), by pool and policy"
    );
    EVALUATION_DURATION: Histogram<ByReasonConsolidationType> = (
        "karpenter_voluntary_disruption_decision_evaluation_duration_seconds",
        "Seconds per plan; one plan evaluates all nodes for all reasons, so reason and consolidation_type are empty",
        STEPS
    );
    ELIGIBLE_NODES: Gauge<ByReason> = (
        "karpenter_voluntary_disruption_eligible_nodes",
        "Nodes that the last plan could disrupt without budgets, by reason"
    );
    QUEUE_FAILURES: Counter<ByDecisionReasonConsolidationType> = (
        "karpenter_voluntary_disruption_queue_failures_total",
        "Commands rolled back because a replacement failed, by decision, reason and type of consolidation"
    );
    FAILED_VALIDATIONS: Counter<ByConsolidationType> = (
        "karpenter_voluntary_disruption_failed_validations_total",
        "Commands that failed consolidation validation, by type of consolidation"
    );
    ALLOWED_DISRUPTIONS: Gauge<ByNodePoolReason> = (
        "karpenter_nodepools_allowed_disruptions",
        "Nodes that may be disrupted now, by pool and reason: the budget less nodes that are already disrupted"
    );
    CONSUMING_BUDGETS: Gauge<ByNodePoolReason> = (
        "karpenter_nodepools_nodes_consuming_budgets",
        "Nodes that are being disrupted or not ready and so consume budgets, by pool and reason"
    );
    CONSOLIDATION_TIMEOUTS: Counter<ByConsolidationType> = (
        "karpenter_voluntary_disruption_consolidation_timeouts_total",
        "Plans that exhausted their step budget; the next plan continues"
    );
}
