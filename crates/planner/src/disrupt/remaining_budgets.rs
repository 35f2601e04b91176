//! Remaining disruption budgets of each NodePool during a plan.

use std::collections::BTreeMap;

use crate::{Budgets, CommandReason, Node, Snapshot};

/// Budgets by NodePool, and the number of its nodes that the plan removes so far.
#[derive(Clone)]
pub(super) struct RemainingBudgets<'a> {
    pools: BTreeMap<&'a str, (Budgets, u32)>,
}

impl<'a> RemainingBudgets<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let own = snapshot.pools.iter().map(|pool| (pool.name.as_str(), (pool.disruption.budgets, 0)));
        Self { pools: own.collect() }
    }

    /// Reports whether all these nodes may be removed for this reason.
    pub(super) fn allows(&self, nodes: &[&Node], reason: CommandReason) -> bool {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        nodes.iter().for_each(|node| *counts.entry(node.pool.as_deref().unwrap_or_default()).or_default() += 1);
        counts.iter().all(|(pool, count)| {
            let known = self.pools.get(pool);
            known.is_some_and(|(budgets, spent)| spent.saturating_add(*count) <= allowance(budgets, reason))
        })
    }

    /// Counts removed nodes, for every reason.
    pub(super) fn spend(&mut self, nodes: &[&Node]) {
        for node in nodes {
            if let Some((_, spent)) = node.pool.as_deref().and_then(|pool| self.pools.get_mut(pool)) {
                *spent = spent.saturating_add(1);
            }
        }
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
