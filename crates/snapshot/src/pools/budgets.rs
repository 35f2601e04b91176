//! Remaining disruption budgets of a NodePool, and its canary.

use api::NodePool;
use api::nodepool::DisruptionReason;
use jiff::Timestamp;
use planner::{Budgets, DriftCanary, Stage};

use crate::nodes::CachedNode;

/// Returns the drifted nodes that are replaced before the others. A node and its replacement count once.
pub(super) fn drift_canary(pool: &NodePool, nodes: &[&CachedNode]) -> Option<DriftCanary> {
    let canary = pool.drift_canary().ok()??;
    let total = count(settled(nodes).filter(|kept| !is_disrupted(kept)));
    Some(DriftCanary { nodes: canary.nodes(total), time: canary.time.div_euclid(1_000_000) })
}

/// Returns the nodes that percentages refer to.
fn settled<'a>(nodes: &'a [&CachedNode]) -> impl Iterator<Item = &'a CachedNode> {
    let managed = nodes.iter().filter(|kept| kept.is_managed() && kept.node.stage == Stage::Initialized);
    managed.filter(|kept| !kept.disruption_state.terminating).copied()
}

fn is_disrupted(kept: &CachedNode) -> bool {
    kept.node.leaving.is_some() || kept.disruption_state.is_disrupted()
}

fn count<'a>(nodes: impl Iterator<Item = &'a CachedNode>) -> u32 {
    u32::try_from(nodes.count()).unwrap_or(u32::MAX)
}

/// Returns the remaining budget of the NodePool by reason: the minimum of its budgets for the reason, less the nodes that are
/// already being disrupted.
pub(super) fn remaining(pool: &NodePool, nodes: &[&CachedNode], now: Timestamp) -> Budgets {
    let total = count(settled(nodes));
    let disrupted = count(settled(nodes).filter(|kept| is_disrupted(kept)));
    let mut least = Budgets::UNLIMITED;
    for (budget, allowed) in pool.budgets(total, now) {
        // An invalid budget allows no disruption; the NodePool's problems name it.
        let Some(allowed) = allowed.unwrap_or(Some(0)) else { continue };
        let rows = [
            (Some(DisruptionReason::Empty), &mut least.empty),
            (Some(DisruptionReason::Underutilized), &mut least.underutilized),
            (Some(DisruptionReason::Drifted), &mut least.drifted),
            (None, &mut least.expired),
        ];
        for (_, slot) in rows.into_iter().filter(|(reason, _)| budget.concerns(*reason)) {
            *slot = allowed.min(*slot);
        }
    }
    if pool.drift_canary().is_err() {
        least.drifted = 0;
    }
    Budgets {
        empty: least.empty.saturating_sub(disrupted),
        underutilized: least.underutilized.saturating_sub(disrupted),
        drifted: least.drifted.saturating_sub(disrupted),
        expired: least.expired.saturating_sub(disrupted),
    }
}
