//! Metrics of consolidation scores by NodePool, which policy Balanced evaluates. Counts, decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use daemon::metric::Metrics;
use parking_lot::Mutex;
use planner::{CommandReason, ConsolidationPolicy, NodeVerdict, Plan};
use snapshot::SnapshotResult;

use crate::metrics;

/// Nodes whose commands the last plan rejected. Each node counts once until its verdict changes.
#[derive(Debug, Default)]
pub struct ConsolidationScores {
    rejected: Mutex<BTreeSet<String>>,
}

impl ConsolidationScores {
    /// Counts the commands at the positions `begin` of the plan, and the nodes whose savings are too small for their
    /// disruption.
    pub fn count(&self, metrics: &Metrics, built: &SnapshotResult, plan: &Plan, begin: &[usize]) {
        let begun = begin.iter().filter_map(|position| plan.moves.get(*position));
        let begun = begun.filter(|planned| planned.reason == CommandReason::Underutilized);
        for balance in planner::balances(&built.snapshot, begun) {
            score(metrics, "approved", &balance.pool, balance.policy, balance.score);
        }
        let unbalanced = |(name, verdict): &(String, NodeVerdict)| match verdict {
            NodeVerdict::Unbalanced { score } => Some((name.clone(), *score)),
            _ => None,
        };
        let now: BTreeMap<String, i64> = plan.report.nodes.iter().filter_map(unbalanced).collect();
        let mut rejected = self.rejected.lock();
        for node in built.snapshot.nodes.iter().filter(|node| !rejected.contains(&node.name)) {
            if let (Some(found), Some(pool)) = (now.get(&node.name), &node.pool) {
                score(metrics, "rejected", pool, ConsolidationPolicy::Balanced, *found);
            }
        }
        *rejected = now.into_keys().collect();
    }
}

fn score(metrics: &Metrics, decision: &str, pool: &str, policy: ConsolidationPolicy, thousandths: i64) {
    let policy = match policy {
        ConsolidationPolicy::WhenEmpty => "WhenEmpty",
        ConsolidationPolicy::WhenEmptyOrUnderutilized => "WhenEmptyOrUnderutilized",
        ConsolidationPolicy::Balanced => "Balanced",
    };
    let labels = metrics::ByDecisionNodePoolPolicy { decision, nodepool: pool, policy };
    metrics.observe(&metrics::CONSOLIDATION_SCORE, labels, thousandths as f64 / 1000.0);
    metrics.add(&metrics::CONSOLIDATION_MOVES, labels, 1.0);
}

#[cfg(test)]
mod tests;
