//! Limits, cost and forecast of SpendPolicies, from their status.

use api::SpendPolicy;
use api::price::micro_dollars;
use api::spendpolicy::SpendPolicyStatus;

use super::costs::dollars;
use crate::metrics::gauge_set::Sample;
use crate::metrics::{self, BySpendPolicy, BySpendPolicyLimit};
use crate::state::index::Index;

pub(super) fn samples(index: &Index) -> Vec<Sample> {
    index.spend_policies.values().flat_map(|policy| of_policy(policy)).collect()
}

fn of_policy(policy: &SpendPolicy) -> Vec<Sample> {
    let spendpolicy = policy.metadata.name.as_deref().unwrap_or_default();
    let Some(status) = &policy.status else { return Vec::new() };
    let SpendPolicyStatus { max_cost_per_hour, soft_cost_per_hour, .. } = status;
    let limits = [("max", max_cost_per_hour), ("soft", soft_cost_per_hour)];
    let limit = |(limit, amount)| {
        Some(Sample::new(&metrics::SPEND_LIMIT, BySpendPolicyLimit { spendpolicy, limit }, read(amount)?))
    };
    let amounts = [
        (&metrics::SPEND_COST, &status.cost_per_hour),
        (&metrics::SPEND_MONTH, &status.cost_this_month),
        (&metrics::SPEND_FORECAST, &status.forecast_this_month),
        (&metrics::SPEND_BUDGET, &policy.spec.max_cost_per_month),
    ];
    let amount = |(metric, amount)| Some(Sample::new(metric, BySpendPolicy { spendpolicy }, read(amount)?));
    limits.into_iter().filter_map(limit).chain(amounts.into_iter().filter_map(amount)).collect()
}

fn read(amount: &Option<String>) -> Option<f64> {
    Some(dollars(micro_dollars(amount.as_deref()?).ok()?))
}
