//! Hints about valid settings that often do not mean what their author expects.

use std::sync::Arc;

use api::NodePool;
use api::nodepool::{Budget, DisruptionReason};

/// Returns a hint for each NodePool whose budgets limit a reason only within their windows: outside of them, nothing does.
/// Budgets of zero nodes are windows in which nothing happens, and are meant so.
pub(crate) fn without_constant_budget(pools: &[Arc<NodePool>]) -> Vec<String> {
    pools.iter().filter_map(|pool| hint(pool)).collect()
}

/// Returns the hint for one NodePool.
pub(crate) fn hint(pool: &NodePool) -> Option<String> {
    const REASONS: [DisruptionReason; 3] =
        [DisruptionReason::Drifted, DisruptionReason::Empty, DisruptionReason::Underutilized];
    let budgets = &pool.spec.disruption.budgets;
    let unlimited: Vec<String> = REASONS
        .iter()
        .filter(|reason| is_limited_by_windows_only(budgets, **reason))
        .map(|it| format!("{it:?}"))
        .collect();
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    (!unlimited.is_empty()).then(|| {
        format!(
            "NodePool {name}: spec.disruption.budgets have a schedule each, so outside of their windows nothing limits {}; \
             add a budget without schedule for the rest of the time, which counts together with them",
            unlimited.join(", ")
        )
    })
}

fn is_limited_by_windows_only(budgets: &[Budget], reason: DisruptionReason) -> bool {
    let own: Vec<&Budget> = budgets.iter().filter(|budget| budget.concerns(Some(reason))).collect();
    let blocks = |budget: &Budget| ["0", "0%"].contains(&budget.nodes.as_str());
    own.iter().any(|budget| !blocks(budget)) && own.iter().all(|budget| budget.schedule.is_some())
}
