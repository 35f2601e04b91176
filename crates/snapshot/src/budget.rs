//! How many nodes of a pool may be disrupted now because they are empty.

use api::NodePool;
use api::nodepool::DisruptionReason;
use planner::{Budgets, Stage};

use crate::Problem;
use crate::nodes::Kept;

/// What the pool's budgets leave, by reason.
pub(crate) fn left(pool: &NodePool, nodes: &[&Kept], problems: &mut Vec<Problem>) -> Budgets {
    Budgets { empty: empty(pool, nodes, problems), ..Budgets::NONE }
}

/// The least over the pool's budgets for reason `Empty`, less the nodes that are disturbed already.
///
/// Budgets with a schedule count as if they were active all the time: without a calendar that errs towards keeping nodes.
fn empty(pool: &NodePool, nodes: &[&Kept], problems: &mut Vec<Problem>) -> u32 {
    let settled = || nodes.iter().filter(|kept| kept.is_managed() && kept.node.stage == Stage::Initialized);
    let total = u32::try_from(settled().count()).unwrap_or(u32::MAX);
    let disturbed = settled().filter(|kept| kept.node.leaving.is_some() || !kept.ready).count();
    let mut allowed = u32::MAX;
    for budget in &pool.spec.disruption.budgets {
        let concerns = |reasons: &Vec<DisruptionReason>| reasons.contains(&DisruptionReason::Empty);
        if !budget.reasons.as_ref().is_none_or(concerns) {
            continue;
        }
        allowed = allowed.min(share(&budget.nodes, total).unwrap_or_else(|| {
            let pool = pool.metadata.name.clone().unwrap_or_default();
            problems.push(Problem::Budget { pool, nodes: budget.nodes.clone() });
            0
        }));
    }
    allowed.saturating_sub(u32::try_from(disturbed).unwrap_or(u32::MAX))
}

/// A number of nodes, or a percentage of them, rounded up.
fn share(text: &str, total: u32) -> Option<u32> {
    match text.strip_suffix('%') {
        None => text.parse().ok(),
        Some(percent) => {
            let percent: u64 = percent.parse().ok()?;
            u32::try_from((u64::from(total) * percent).div_ceil(100)).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_round_up() {
        let rows = [
            ("0", 10, Some(0)),
            ("3", 10, Some(3)),
            ("10%", 1, Some(1)),
            ("10%", 10, Some(1)),
            ("10%", 11, Some(2)),
            ("0%", 10, Some(0)),
            ("100%", 7, Some(7)),
            ("10%", 0, Some(0)),
            ("ten", 10, None),
            ("-1", 10, None),
            ("x%", 10, None),
        ];
        for (text, total, expected) in rows {
            assert_eq!(share(text, total), expected, "{text} of {total}");
        }
    }
}
