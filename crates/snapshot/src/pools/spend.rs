//! Limits of what the nodes of several NodePools cost together: SpendPolicies, and the setting for all nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::spendpolicy::SpendLimits;
use api::{FieldFault, SpendPolicy};
use planner::{MicroDollars, MinimumSavings, Pool, PreferencePremium, SpendLimit};

use super::hourly_cost;
use crate::nodes::CachedNode;
use crate::{Input, Problem};

/// Limits of a snapshot, and the states of the SpendPolicies for their status.
pub(crate) struct Spending {
    pub(crate) limits: Vec<SpendLimit>,
    pub(crate) states: Vec<SpendState>,
}

/// State of a SpendPolicy at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpendState {
    /// Name of the SpendPolicy.
    pub policy: String,
    /// Names of the NodePools that it selects.
    pub pools: BTreeSet<String>,
    /// Hourly cost of their nodes.
    pub cost: MicroDollars,
    /// Limits at this moment, or the problems of the policy.
    pub limits: Result<SpendLimits, Vec<FieldFault>>,
}

impl SpendState {
    /// Returns the limits that apply. An invalid policy permits nothing, since a limit that fails open would be none.
    #[must_use]
    pub fn applied_limits(&self) -> SpendLimits {
        self.limits.clone().unwrap_or(SpendLimits { max: Some(0), soft: None })
    }
}

/// Evaluates the limits of the cost. NodePools above one of their limits accept any saving.
pub(crate) fn evaluate(
    input: &Input<'_>,
    pools: &mut [Pool],
    nodes: &[CachedNode],
    problems: &mut Vec<Problem>,
) -> Spending {
    let mut limits: Vec<SpendLimit> = of_all_nodes(input, pools, nodes).into_iter().collect();
    let mut states = Vec::new();
    let mut above: BTreeSet<String> = BTreeSet::new();
    let mut policies = input.spend_policies.clone();
    policies.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    for policy in policies {
        let covered = Covered::new(input, policy, pools, nodes);
        let name = policy.metadata.name.clone().unwrap_or_default();
        let rules = policy.spec.rules();
        let faults = rules.as_ref().err().into_iter().flatten().cloned();
        problems.extend(faults.map(|fault| Problem::SpendPolicy { policy: name.clone(), fault }));
        let is_spent = rules.as_ref().is_ok_and(|it| it.is_budget_spent(policy.status.as_ref(), input.now));
        let limits_now = rules.map(|rules| rules.limits_at(input.now));
        let state =
            SpendState { policy: name.clone(), pools: covered.all.clone(), cost: covered.cost, limits: limits_now };
        let SpendLimits { max, soft } = state.applied_limits();
        let named = [(max, SpendLimit::of_policy(&name)), (is_spent.then_some(0), SpendLimit::of_month(&name))];
        limits.extend(named.into_iter().filter_map(|(limit, name)| Some(covered.limited(name, limit?))));
        if soft.is_some_and(|soft| covered.cost.0 > soft) {
            above.extend(covered.pools.iter().cloned());
        }
        states.push(state);
    }
    above.extend(limits.iter().filter(|it| it.cost > it.limit).flat_map(|it| it.pools.iter().cloned()));
    let is_above = |pool: &Pool| above.contains(&pool.name) || pool.cost_limit.is_some_and(|limit| pool.cost > limit);
    pools.iter_mut().filter(|pool| is_above(pool)).for_each(accept_any_saving);
    Spending { limits, states }
}

/// Makes the plan save where it can: preferences of pods cost nothing, and no saving is too small. A command must still earn back what a
/// new node costs before it is usable.
fn accept_any_saving(pool: &mut Pool) {
    pool.preference_premium = Some(PreferencePremium::Percent(0));
    pool.disruption.worth = MinimumSavings { share: 0, per_pod: MicroDollars(0), ..pool.disruption.worth };
}

/// Returns the limit of the setting `MAX_COST_PER_HOUR`. Nodes of NodePools that launch nothing now count as well.
fn of_all_nodes(input: &Input<'_>, pools: &[Pool], nodes: &[CachedNode]) -> Option<SpendLimit> {
    let limit = input.settings.cost_limit?;
    let names = pools.iter().map(|pool| pool.name.clone()).collect();
    let cost = cost_of(pools, nodes, |_| true);
    Some(SpendLimit { name: SpendLimit::OF_ALL_NODES.to_owned(), limit, cost, pools: names })
}

/// NodePools of a SpendPolicy.
struct Covered {
    /// Names of those that may launch nodes.
    pools: BTreeSet<String>,
    /// Names of all of them.
    all: BTreeSet<String>,
    cost: MicroDollars,
}

impl Covered {
    fn new(input: &Input<'_>, policy: &Arc<SpendPolicy>, pools: &[Pool], nodes: &[CachedNode]) -> Self {
        let selected = input.pools.iter().filter(|pool| policy.spec.selects(pool));
        let all: BTreeSet<String> = selected.filter_map(|pool| pool.metadata.name.clone()).collect();
        let names = pools.iter().map(|pool| &pool.name).filter(|name| all.contains(name.as_str()));
        Self { pools: names.cloned().collect(), cost: cost_of(pools, nodes, |pool| all.contains(pool)), all }
    }

    fn limited(&self, name: String, limit: i64) -> SpendLimit {
        SpendLimit { name, limit: MicroDollars(limit), cost: self.cost, pools: self.pools.clone() }
    }
}

/// Returns the hourly cost of the nodes of the counted NodePools, also of those that launch nothing now.
fn cost_of(pools: &[Pool], nodes: &[CachedNode], is_counted: impl Fn(&str) -> bool) -> MicroDollars {
    let known: BTreeSet<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
    let of_pools = pools.iter().filter(|pool| is_counted(&pool.name)).map(|pool| pool.cost.0);
    let is_of_others = |kept: &&CachedNode| {
        let pool = kept.node.pool.as_deref().unwrap_or_default();
        !known.contains(pool) && is_counted(pool)
    };
    let of_others = nodes.iter().filter(is_of_others).map(|kept| hourly_cost(kept, MicroDollars(0)));
    MicroDollars(of_pools.chain(of_others).sum())
}
