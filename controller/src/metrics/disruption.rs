//! Metrics of disruption commands, both started and evaluated.

use daemon::metric::{Kind, Metric};

/// Karpenter's buckets for consolidation scores.
const SCORES: &[f64] = &[0.1, 0.25, 0.33, 0.5, 1.0, 2.0, 5.0, 10.0];

/// Started commands.
pub const DECISIONS: Metric = Metric {
    name: "karpenter_voluntary_disruption_decisions_total",
    help: "Started commands, by decision (delete, replace), reason and type of consolidation",
    kind: Kind::Counter,
    labels: &["decision", "reason", "consolidation_type"],
};
/// Started commands by NodePool.
pub const DECISIONS_BY_POOL: Metric = Metric {
    name: "karpenter_voluntary_disruption_decisions_by_nodepool_total",
    help: "Started commands per NodePool of their nodes, by decision, reason and type of consolidation",
    kind: Kind::Counter,
    labels: &["nodepool", "decision", "reason", "consolidation_type"],
};
/// Savings of commands relative to their disruption.
pub const CONSOLIDATION_SCORE: Metric = Metric {
    name: "karpenter_consolidation_score",
    help: "Balance score of commands: share of the pool's cost saved over share of its disruption caused, by \
           decision (approved, rejected), pool and policy",
    kind: Kind::Histogram(SCORES),
    labels: &["decision", "nodepool", "policy"],
};
/// Evaluated consolidation commands.
pub const CONSOLIDATION_MOVES: Metric = Metric {
    name: "karpenter_consolidation_moves_total",
    help: "Consolidation commands that were started (approved), and nodes whose savings are too small for policy \
           Balanced (rejected), by pool and policy",
    kind: Kind::Counter,
    labels: &["decision", "nodepool", "policy"],
};
