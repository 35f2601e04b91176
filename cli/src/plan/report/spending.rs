//! SpendPolicies of a plan: what their NodePools cost, and what they may cost.

use serde::Serialize;
use snapshot::SpendState;

use super::PlanAnswer;
use crate::output::money::{dollars, rounded};
use crate::plan::cost;

/// Cost of a SpendPolicy's nodes in dollars per hour, with volumes, addresses and fees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpendReport {
    /// Name of the SpendPolicy.
    pub name: String,
    /// Names of the NodePools that it selects.
    pub node_pools: Vec<String>,
    /// Cost now.
    pub before: String,
    /// Cost after the plan is carried out.
    pub after: String,
    /// Maximum at the time of the plan; `null` without one.
    pub max: Option<String>,
    /// Soft limit at the time of the plan; `null` without one.
    pub soft: Option<String>,
}

pub(super) fn policies(answer: &PlanAnswer) -> Vec<SpendReport> {
    answer.built.spending.iter().map(|state| report(answer, state)).collect()
}

fn report(answer: &PlanAnswer, state: &SpendState) -> SpendReport {
    let (before, after) = sums(answer, state);
    let limits = state.applied_limits();
    SpendReport {
        name: state.policy.clone(),
        node_pools: state.pools.iter().cloned().collect(),
        before: dollars(before),
        after: dollars(after),
        max: limits.max.map(dollars),
        soft: limits.soft.map(dollars),
    }
}

fn sums(answer: &PlanAnswer, state: &SpendState) -> (i64, i64) {
    let is_selected = |pool: Option<&str>| pool.is_some_and(|pool| state.pools.contains(pool));
    let (before, after) = cost::before_and_after_in(answer, is_selected);
    (before.sum(), after.sum())
}

/// Returns each SpendPolicy as a sentence.
pub(crate) fn spend_text(answer: &PlanAnswer) -> Vec<String> {
    let text = |state: &SpendState| {
        let ((before, after), limits) = (sums(answer, state), state.applied_limits());
        let named = [("at most", limits.max), ("soft limit", limits.soft)];
        let bounds = named.into_iter().filter_map(|(name, limit)| Some(format!(", {name} {}/h", rounded(limit?))));
        let bounds: String = bounds.collect();
        format!("SpendPolicy {}: before {}/h, after {}/h{bounds}", state.policy, rounded(before), rounded(after))
    };
    answer.built.spending.iter().map(text).collect()
}
