//! Remaining disruption budgets of each NodePool during a plan.

mod drift_canary;

use std::collections::BTreeMap;

use drift_canary::{DriftHold, drift_holds};

use crate::{Budgets, CommandReason, Node, NodeVerdict, Snapshot};

/// Budgets by NodePool.
#[derive(Clone)]
pub(super) struct RemainingBudgets<'a> {
    pools: BTreeMap<&'a str, PoolBudgets>,
}

#[derive(Clone)]
struct PoolBudgets {
    budgets: Budgets,
    /// Limit of drift while the canary is not over.
    hold: Option<DriftHold>,
    /// Number of nodes that the plan removes so far.
    spent: u32,
    /// Number of drifted nodes among them.
    drifted: u32,
}

/// Returns how many drifted nodes the canary of each NodePool still lets a plan remove, where the canary is not over.
#[must_use]
pub fn allowed_by_canaries(snapshot: &Snapshot) -> BTreeMap<&str, u32> {
    drift_holds(snapshot).into_iter().map(|(pool, hold)| (pool, hold.allowed)).collect()
}

impl<'a> RemainingBudgets<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut holds = drift_holds(snapshot);
        let own = snapshot.pools.iter().map(|pool| {
            let hold = holds.remove(pool.name.as_str());
            (pool.name.as_str(), PoolBudgets { budgets: pool.disruption.budgets, hold, spent: 0, drifted: 0 })
        });
        Self { pools: own.collect() }
    }

    /// Reports whether all these nodes may be removed for this reason.
    pub(super) fn allows(&self, nodes: &[&Node], reason: CommandReason) -> bool {
        self.refusal(nodes, reason).is_none()
    }

    /// Returns the verdict against the removal of these nodes for this reason, if they may not all be removed.
    pub(super) fn refusal(&self, nodes: &[&Node], reason: CommandReason) -> Option<NodeVerdict> {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        nodes.iter().for_each(|node| *counts.entry(node.pool.as_deref().unwrap_or_default()).or_default() += 1);
        counts.into_iter().find_map(|(pool, count)| match self.pools.get(pool) {
            None => Some(NodeVerdict::Budget { reason }),
            Some(pool) => pool.refusal(count, reason),
        })
    }

    /// Counts removed nodes, for every reason.
    pub(super) fn spend(&mut self, nodes: &[&Node]) {
        for node in nodes {
            if let Some(own) = node.pool.as_deref().and_then(|pool| self.pools.get_mut(pool)) {
                own.spent = own.spent.saturating_add(1);
                own.drifted = own.drifted.saturating_add(u32::from(node.drifted.is_some()));
            }
        }
    }
}

impl PoolBudgets {
    fn refusal(&self, count: u32, reason: CommandReason) -> Option<NodeVerdict> {
        if self.spent.saturating_add(count) > allowance(&self.budgets, reason) {
            return Some(NodeVerdict::Budget { reason });
        }
        let hold = self.hold.as_ref().filter(|_| reason == CommandReason::Drifted)?;
        (self.drifted.saturating_add(count) > hold.allowed).then(|| hold.verdict.clone())
    }
}

/// Returns how many nodes a NodePool may lose for a reason. Reasons that permit no delay have no budget.
fn allowance(budgets: &Budgets, reason: CommandReason) -> u32 {
    match reason {
        CommandReason::Empty => budgets.empty,
        CommandReason::Underutilized => budgets.underutilized,
        CommandReason::Drifted => budgets.drifted,
        CommandReason::Expired => budgets.expired,
        CommandReason::Unhealthy | CommandReason::Inactive | CommandReason::Static => u32::MAX,
    }
}
