//! Status of SpendPolicies: the limits that apply now, the cost, and the cost of the month with a forecast.

use std::sync::Arc;
use std::time::Duration;

use api::price::dollars;
use api::spendpolicy::{MonthCost, SpendLimits, SpendPolicyStatus, SpendRules, Spending};
use api::{SpendPolicy, condition, reason};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use snapshot::SpendState;

use super::FoundCondition;
use crate::state::plans::results::SpendStateAtGeneration;
use crate::write::patches;
use crate::write::writer::{Operation, Target};

/// Interval of updates while only amounts change.
pub const INTERVAL: Duration = Duration::from_secs(60);

/// Input of a decision about a SpendPolicy.
pub struct SpendPolicyView {
    /// SpendPolicy to decide about.
    pub policy: Arc<SpendPolicy>,
    /// State in the last plan; `None` before the first plan.
    pub finding: Option<SpendStateAtGeneration>,
    /// Time of the reconcile.
    pub now: Timestamp,
}

/// Decides about one SpendPolicy. A state of an older generation is ignored until the next plan.
#[must_use]
pub fn decide(view: &SpendPolicyView) -> Vec<Operation> {
    let meta = &view.policy.metadata;
    let finding = view.finding.as_ref().filter(|it| it.generation == meta.generation.unwrap_or_default());
    let Some(finding) = finding.filter(|_| meta.deletion_timestamp.is_none()) else { return Vec::new() };
    let before = view.policy.status.clone().unwrap_or_default();
    let status = next_status(&before, view, &finding.verdict);
    if !is_due(&before, &status, view.now) {
        return Vec::new();
    }
    vec![Operation::PatchStatus(target(meta), patches::status(meta, &view.policy.status, &Some(status)))]
}

fn target(meta: &ObjectMeta) -> Target {
    Target::SpendPolicy(meta.name.clone().unwrap_or_default())
}

/// Reports whether the status must be written: immediately if more than amounts changed, otherwise after the interval.
fn is_due(before: &SpendPolicyStatus, after: &SpendPolicyStatus, now: Timestamp) -> bool {
    let decisive = |status: &SpendPolicyStatus| {
        let conditions: Vec<_> = status.conditions.iter().map(|it| (it.type_.clone(), it.reason.clone())).collect();
        let limits = (status.max_cost_per_hour.clone(), status.soft_cost_per_hour.clone());
        (conditions, limits, status.node_pools, status.month.clone())
    };
    let interval = SignedDuration::try_from(INTERVAL).unwrap_or(SignedDuration::MAX);
    let is_recent = |until: Timestamp| now.duration_since(until) < interval;
    decisive(before) != decisive(after) || !before.counted_until.as_ref().is_some_and(|until| is_recent(until.0))
}

fn next_status(before: &SpendPolicyStatus, view: &SpendPolicyView, state: &SpendState) -> SpendPolicyStatus {
    let mut status = before.clone();
    let rules = view.policy.spec.rules();
    let zone = rules.as_ref().map_or(jiff::tz::TimeZone::UTC, |rules| rules.zone.clone());
    let spending = MonthCost::continued(MonthCost::of_status(before), state.cost.0, &zone, view.now);
    status.set_spending(&spending);
    let limits = state.applied_limits();
    status.node_pools = i64::try_from(state.pools.len()).unwrap_or(i64::MAX);
    status.max_cost_per_hour = limits.max.map(dollars);
    status.soft_cost_per_hour = limits.soft.map(dollars);
    let generation = view.policy.metadata.generation.unwrap_or_default();
    let conditions =
        [readiness(state), limit_condition(limits, state.cost.0), budget_condition(rules.as_ref().ok(), &spending)];
    FoundCondition::set_all(&conditions, &mut status.conditions, generation, view.now);
    status
}

fn readiness(state: &SpendState) -> FoundCondition {
    let faults = state.limits.as_ref().err().map(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>());
    FoundCondition {
        type_: condition::READY,
        is_true: faults.is_none(),
        reason: if faults.is_none() { reason::VALID } else { reason::INVALID_FIELD },
        message: faults.map(|faults| format!("permits no launch: {}", faults.join("; "))).unwrap_or_default(),
    }
}

/// Returns the condition of the limits per hour. Its message has no cost, which would change with each price.
fn limit_condition(limits: SpendLimits, cost: i64) -> FoundCondition {
    let above = |limit: Option<i64>| limit.filter(|limit| cost > *limit).map(dollars);
    let (reason, message) = match (above(limits.max), above(limits.soft)) {
        (Some(limit), _) => (
            reason::ABOVE_LIMIT,
            format!("the nodes cost more than {limit} dollars per hour: nothing is launched, and any saving counts"),
        ),
        (None, Some(limit)) => (
            reason::ABOVE_SOFT_LIMIT,
            format!("the nodes cost more than {limit} dollars per hour: preferences cost nothing, any saving counts"),
        ),
        (None, None) => (reason::COST_WITHIN, String::new()),
    };
    FoundCondition { type_: condition::WITHIN_LIMITS, is_true: reason == reason::COST_WITHIN, reason, message }
}

fn budget_condition(rules: Option<&SpendRules>, spending: &Spending) -> FoundCondition {
    let budget = rules.and_then(|rules| rules.budget);
    let reached = |amount: i64| budget.filter(|budget| amount >= *budget).map(dollars);
    let (reason, message) = match (reached(spending.count.spent), reached(spending.forecast)) {
        (Some(budget), _) => (
            reason::BUDGET_SPENT,
            format!("the {budget} dollars of {} are spent: nothing is launched until it ends", spending.month),
        ),
        (None, Some(budget)) => (
            reason::FORECAST_ABOVE_BUDGET,
            format!("at this rate the {budget} dollars of {} are spent before it ends", spending.month),
        ),
        (None, None) => (reason::COST_WITHIN, String::new()),
    };
    FoundCondition { type_: condition::WITHIN_BUDGET, is_true: reason == reason::COST_WITHIN, reason, message }
}

#[cfg(test)]
mod tests {
    use planner::MicroDollars;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixture::{at, body, words, written};
    use crate::state::plans::results::AtGeneration;

    fn policy(spec: Value, status: Value) -> Arc<SpendPolicy> {
        let object = json!({
            "apiVersion": "kerf.sh/v1alpha1", "kind": "SpendPolicy",
            "metadata": {"name": "night", "generation": 1}, "spec": spec, "status": status,
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn view(policy: Arc<SpendPolicy>, cost: i64, now: Timestamp) -> SpendPolicyView {
        let limits = policy.spec.rules().map(|rules| rules.limits_at(now));
        let pools = ["a", "b"].map(str::to_owned).into();
        let state = SpendState { policy: "night".to_owned(), pools, cost: MicroDollars(cost), limits };
        SpendPolicyView { policy, finding: Some(AtGeneration { generation: 1, verdict: state }), now }
    }

    #[test]
    fn decide_writes_cost_limits_and_conditions() {
        let spec = json!({"maxCostPerHour": "4", "softCostPerHour": "3", "maxCostPerMonth": "1000"});
        let rows = [
            (2_000_000, "True", reason::COST_WITHIN),
            (3_500_000, "False", reason::ABOVE_SOFT_LIMIT),
            (4_000_001, "False", reason::ABOVE_LIMIT),
        ];
        for (cost, status, why) in rows {
            let steps = decide(&view(policy(spec.clone(), json!({})), cost, at(60)));
            assert_eq!(words(&steps), ["status of spend policy night"]);
            let found = written(&steps, condition::WITHIN_LIMITS).unwrap();
            assert_eq!((found.0.as_str(), found.1.as_str()), (status, why));
            assert_eq!(written(&steps, condition::READY).unwrap().0, "True");
            let written = &body(&steps)["status"];
            assert_eq!(written["costPerHour"], dollars(cost));
            assert_eq!((&written["maxCostPerHour"], &written["softCostPerHour"]), (&json!("4"), &json!("3")));
            assert_eq!((&written["nodePools"], &written["costThisMonth"]), (&json!(2), &json!("0")));
        }
    }

    #[test]
    fn decide_reports_a_budget_that_is_spent_or_will_be() {
        let counted = |spent: &str| {
            json!({"costPerHour": "1", "costThisMonth": spent, "countedSince": at(0).to_string(),
                   "countedUntil": at(7200).to_string()})
        };
        let rows = [
            ("1", "100000", "True", reason::COST_WITHIN),
            ("1", "100", "False", reason::FORECAST_ABOVE_BUDGET),
            ("100", "100", "False", reason::BUDGET_SPENT),
        ];
        for (spent, budget, status, why) in rows {
            let policy = policy(json!({"maxCostPerMonth": budget}), counted(spent));
            let steps = decide(&view(policy, 1_000_000, at(7200)));
            let found = written(&steps, condition::WITHIN_BUDGET).unwrap();
            assert_eq!((found.0.as_str(), found.1.as_str()), (status, why), "{spent} of {budget}");
        }
    }

    #[test]
    fn decide_reports_a_policy_that_is_invalid() {
        let steps = decide(&view(policy(json!({"maxCostPerHour": "much"}), json!({})), 1, at(60)));
        let (status, why, message) = written(&steps, condition::READY).unwrap();
        assert_eq!((status.as_str(), why.as_str()), ("False", reason::INVALID_FIELD));
        assert!(message.contains("spec.maxCostPerHour: \"much\" is not a price"), "{message}");
        assert_eq!(body(&steps)["status"]["maxCostPerHour"], "0");
    }

    #[test]
    fn decide_writes_amounts_once_per_interval() {
        let spec = json!({"maxCostPerHour": "4"});
        let first = decide(&view(policy(spec.clone(), json!({})), 1_000_000, at(60)));
        let known = || policy(spec.clone(), body(&first)["status"].clone());
        assert!(decide(&view(known(), 2_000_000, at(90))).is_empty());
        assert_eq!(decide(&view(known(), 5_000_000, at(90))).len(), 1);
        let later = decide(&view(known(), 2_000_000, at(3660)));
        assert_eq!(body(&later)["status"]["costThisMonth"], "1");
        let older = SpendPolicyView { finding: None, ..view(known(), 2_000_000, at(3660)) };
        assert!(decide(&older).is_empty());
    }
}
