//! NodePools as the planner's input.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{MicroDollars, Millis, PreferencePremium, Requirement, Resources, Taint};

/// NodePool that may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pool {
    /// Name of the NodePool.
    pub name: String,
    /// Weight, the greater the earlier; absent in the object means 0.
    pub weight: i32,
    /// Position of the NodePool's catalogue in the snapshot.
    pub catalogue: usize,
    /// Requirements of the template.
    pub requirements: Vec<Requirement>,
    /// Labels of every node of the NodePool, including its own and the EC2NodeClass's labels.
    pub labels: BTreeMap<String, String>,
    /// Permanent taints of the NodePool's nodes. Startup taints do not count: pods wait for their removal.
    pub taints: Vec<Taint>,
    /// Limits of the whole NodePool (`nodes` counts nodes); `None` means no limit.
    pub limits: Option<Resources>,
    /// Part of the limits that is used: capacity of the NodePool's nodes and claims (`nodes` included). Leaving ones count only
    /// for a static NodePool.
    pub usage: Resources,
    /// Maximum hourly cost of the NodePool's nodes; `None` means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_limit: Option<MicroDollars>,
    /// Hourly cost of the NodePool's nodes and claims, fees included. Leaving ones cost until they are gone, and a claim without an
    /// instance counts as its most expensive possible one.
    pub cost: MicroDollars,
    /// Conditions for the disruption of the NodePool's nodes.
    pub disruption: Disruption,
    /// Number of nodes of a static NodePool; its nodes take pods, but no node is launched for them.
    pub replicas: Option<u32>,
    /// Number of the NodePool's nodes and claims that are not leaving.
    pub running: u32,
    /// Cost of each node beside its price, per hour: agents and licences.
    pub node_fee: MicroDollars,
    /// Maximum premium for preferences of pods on the NodePool's nodes, in place of the policy's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preference_premium: Option<PreferencePremium>,
    /// Permission to launch replacements in the NodePool.
    pub replacements: ReplacementState,
    /// True outside of its active times: the NodePool launches nothing, and its nodes are removed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_inactive: bool,
    /// Time until which missing nodes of a static NodePool are not launched, because earlier launches failed.
    pub paused_until: Option<Millis>,
}

/// Maximum hourly cost of NodePools together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpendLimit {
    /// Name of the limited cost in messages, such as `the cost of SpendPolicy research`.
    pub name: String,
    /// Maximum hourly cost.
    pub limit: MicroDollars,
    /// Hourly cost of the nodes, counted as in [`Pool::cost`].
    pub cost: MicroDollars,
    /// Names of the NodePools whose launches it limits.
    pub pools: BTreeSet<String>,
}

impl SpendLimit {
    /// Name of the limit of the setting `MAX_COST_PER_HOUR`.
    pub const OF_ALL_NODES: &str = "the cost of all nodes (MAX_COST_PER_HOUR)";

    /// Returns the name of the limit of a SpendPolicy.
    #[must_use]
    pub fn of_policy(policy: &str) -> String {
        format!("the cost of SpendPolicy {policy}")
    }

    /// Returns the name of the limit of a SpendPolicy whose budget of the month is spent.
    #[must_use]
    pub fn of_month(policy: &str) -> String {
        format!("the cost per month of SpendPolicy {policy}")
    }
}

/// Permission to launch replacements in a NodePool, after the results of earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReplacementState {
    /// Any number of commands may launch replacements.
    #[default]
    Allowed,
    /// Replacements failed, and none was initialized since: one command at a time may try again.
    One,
    /// A replacement must be initialized or deleted first.
    Awaiting {
        /// Name of its NodeClaim.
        claim: String,
    },
    /// Replacements failed, so that no command tries again before this time.
    Paused {
        /// Number of attempts that failed in a row.
        failures: u32,
        /// Time of the next attempt.
        until: Millis,
    },
}

/// Pause of launches for some pods in one NodePool, because earlier nodes came up and took none of the pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LaunchPause {
    /// Name of the NodePool.
    pub pool: String,
    /// Number of attempts that failed in a row; 0 while the first one is not decided.
    pub failures: u32,
    /// Time of the next launch.
    pub until: Millis,
}

/// Disruption block of a NodePool, with the remaining budgets at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Disruption {
    /// Minimum quiet time of a node, in milliseconds; `None` is `Never`.
    pub consolidate_after: Option<i64>,
    /// Nodes that consolidation may remove.
    pub policy: ConsolidationPolicy,
    /// Remaining disruptions now, by reason; the caller has applied budgets and schedules.
    pub budgets: Budgets,
    /// Minimum savings of a command.
    pub worth: MinimumSavings,
    /// Use of usage reports.
    pub utilization: Utilization,
    /// Bounds for lowered requests of running pods.
    pub packing: Packing,
    /// Drifted nodes that are replaced before the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary: Option<DriftCanary>,
}

/// Drifted nodes that are replaced before the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DriftCanary {
    /// Number of these nodes.
    pub nodes: u32,
    /// Time for which their replacements must be healthy, in milliseconds.
    pub time: i64,
}

/// Karpenter's `consolidationPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConsolidationPolicy {
    /// Only empty nodes.
    WhenEmpty,
    /// Also nodes whose pods fit elsewhere at a lower cost.
    #[default]
    WhenEmptyOrUnderutilized,
    /// The same, where the savings' share of the NodePool's cost is at least half of the disruption's share of the NodePool's
    /// disruption cost.
    Balanced,
}

/// Remaining disruptions of a NodePool now. Every disruption reduces each of them by one, for every reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Budgets {
    /// Remaining disruptions for reason `Empty`.
    pub empty: u32,
    /// Remaining disruptions for reason `Underutilized`.
    pub underutilized: u32,
    /// Remaining disruptions for reason `Drifted`.
    pub drifted: u32,
    /// Remaining disruptions of expired nodes, from budgets without reasons.
    pub expired: u32,
}

/// Minimum savings of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MinimumSavings {
    /// Minimum share of the price of its nodes, in thousandths.
    pub share: u32,
    /// Minimum savings per hour for each pod that it evicts.
    pub per_pod: MicroDollars,
    /// Paid time of a new node before it is usable, in milliseconds. A command must earn this back within the age of its nodes,
    /// at most one day.
    pub warm_up: i64,
    /// True if the work that evicted pods would do again counts in the same way.
    pub lost_work: bool,
}

/// Bounds for lowered requests of pods that do not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Packing {
    /// Margin added to a pod's usage, in thousandths of it.
    pub margin: u32,
    /// Minimum rest of a request, in thousandths of it.
    pub floor: u32,
    /// Minimum usage history of a pod, in hours.
    pub history: u32,
}

/// Setting `kerf.sh/utilization` of a NodePool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Utilization {
    /// Only requests count.
    Ignore,
    /// Idle nodes are removed first; busy ones are neither removed nor receive moved pods.
    #[default]
    Observe,
    /// Like `Observe`, and requests of pods that do not move are lowered in place to their need.
    Pack,
}

impl Budgets {
    /// Unlimited disruptions for every reason.
    pub const UNLIMITED: Self = Self { empty: u32::MAX, underutilized: u32::MAX, drifted: u32::MAX, expired: u32::MAX };
    /// No disruption for any reason.
    pub const NONE: Self = Self { empty: 0, underutilized: 0, drifted: 0, expired: 0 };
}

impl Default for Budgets {
    fn default() -> Self {
        Self::NONE
    }
}

impl Default for Packing {
    /// Returns a margin of a fifth, a floor of half of the request, and a history of one day.
    fn default() -> Self {
        Self { margin: 200, floor: 500, history: 24 }
    }
}

impl Default for MinimumSavings {
    /// Returns one percent, and a twentieth of a cent for each pod: with more, small nodes with many pods could never be
    /// removed. EC2 bills an instance from `running` on, and the node is usable 5 s later.
    fn default() -> Self {
        Self { share: 10, per_pod: MicroDollars(500), warm_up: 5_000, lost_work: true }
    }
}

#[cfg(test)]
mod tests {
    use super::{MicroDollars, MinimumSavings};

    /// docs/disruption.md lists these values with their reasons.
    #[test]
    fn minimum_savings_default_has_the_documented_values() {
        assert_eq!(
            MinimumSavings::default(),
            MinimumSavings { share: 10, per_pod: MicroDollars(500), warm_up: 5_000, lost_work: true }
        );
    }
}
