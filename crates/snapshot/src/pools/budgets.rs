//! Remaining disruption budgets of a NodePool.

use api::NodePool;
use api::nodepool::DisruptionReason;
use jiff::Timestamp;
use planner::{Budgets, Stage};

use crate::nodes::CachedNode;

/// Returns the remaining budget of the NodePool by reason: the minimum of its budgets for the reason, less the nodes that are
/// already being disrupted.
pub(super) fn remaining(pool: &NodePool, nodes: &[&CachedNode], now: Timestamp) -> Budgets {
    let settled = || {
        let managed = nodes.iter().filter(|kept| kept.is_managed() && kept.node.stage == Stage::Initialized);
        managed.filter(|kept| !kept.disruption_state.terminating)
    };
    let total = u32::try_from(settled().count()).unwrap_or(u32::MAX);
    let disrupted =
        settled().filter(|kept| kept.node.leaving.is_some() || kept.disruption_state.is_disrupted()).count();
    let disrupted = u32::try_from(disrupted).unwrap_or(u32::MAX);
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
    Budgets {
        empty: least.empty.saturating_sub(disrupted),
        underutilized: least.underutilized.saturating_sub(disrupted),
        drifted: least.drifted.saturating_sub(disrupted),
        expired: least.expired.saturating_sub(disrupted),
    }
}
