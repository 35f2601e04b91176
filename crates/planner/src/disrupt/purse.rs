//! What the budgets of each pool still allow while a plan spends them.

use std::collections::BTreeMap;

use crate::{Budgets, MoveReason, Node, Snapshot};

/// Budgets by pool, and how many nodes of each the plan has taken so far.
pub(super) struct Purse<'a> {
    pools: BTreeMap<&'a str, (Budgets, u32)>,
}

impl<'a> Purse<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let own = snapshot.pools.iter().map(|pool| (pool.name.as_str(), (pool.disruption.budgets, 0)));
        Self { pools: own.collect() }
    }

    /// Whether one more node may go for this reason; if so, it is counted.
    pub(super) fn spend(&mut self, node: &Node, reason: MoveReason) -> bool {
        let pool = node.pool.as_deref().and_then(|pool| self.pools.get_mut(pool));
        let Some((budgets, spent)) = pool else { return false };
        let allowed = *spent < allowance(budgets, reason);
        *spent += u32::from(allowed);
        allowed
    }
}

/// How many nodes a pool may lose for a reason. What nobody may put off has no budget.
fn allowance(budgets: &Budgets, reason: MoveReason) -> u32 {
    match reason {
        MoveReason::Empty => budgets.empty,
        MoveReason::Underutilized => budgets.underutilized,
        MoveReason::Drifted => budgets.drifted,
        MoveReason::Expired => budgets.expired,
        MoveReason::Unhealthy | MoveReason::Interrupted | MoveReason::Static => u32::MAX,
    }
}
