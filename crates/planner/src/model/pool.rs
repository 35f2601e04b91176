//! NodePools as the planner sees them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{MicroDollars, Requirement, Resources, Taint};

/// One NodePool that may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pool {
    /// The NodePool's name.
    pub name: String,
    /// Higher first; absent in the object means 0.
    pub weight: i32,
    /// Position of the pool's catalogue in the snapshot.
    pub catalogue: usize,
    /// The template's requirements.
    pub requirements: Vec<Requirement>,
    /// Labels that every node of the pool gets, the pool's and the class's own labels included.
    pub labels: BTreeMap<String, String>,
    /// Taints that stay on the pool's nodes. Startup taints do not count: pods wait for them to go.
    pub taints: Vec<Taint>,
    /// Upper bounds on the whole pool (`nodes` counts nodes); `None` is no limit at all.
    pub limits: Option<Resources>,
    /// Capacity of the pool's nodes and claims that are not leaving (`nodes` included).
    pub usage: Resources,
    /// When and how the pool gives nodes back.
    pub disruption: Disruption,
    /// How many nodes a static pool keeps; such a pool takes pods on its nodes, but gets none made for them.
    pub replicas: Option<u32>,
    /// Nodes and claims of the pool that are not leaving.
    pub running: u32,
    /// What each node costs beside its price, per hour: agents and licences.
    pub node_fee: MicroDollars,
}

/// A NodePool's disruption block, with what its budgets leave at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Disruption {
    /// How long a node must have been quiet, in milliseconds; `None` is `Never`.
    pub consolidate_after: Option<i64>,
    /// Which nodes may be given back to save money.
    pub policy: ConsolidationPolicy,
    /// How many more nodes may be disrupted now, by reason; the translator has applied budgets and calendars.
    pub budgets: Budgets,
    /// What a move must save to be worth it.
    pub worth: MinimumSavings,
    /// What reports of real use count for.
    pub utilization: Utilization,
    /// How far requests are lowered where they are.
    pub packing: Packing,
}

/// Karpenter's `consolidationPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConsolidationPolicy {
    /// Only nodes on which nothing runs.
    WhenEmpty,
    /// Also nodes whose pods fit elsewhere for less.
    #[default]
    WhenEmptyOrUnderutilized,
    /// The same, where the saving's share of the pool's cost is at least half of the disruption's share of the pool's.
    Balanced,
}

/// How many more nodes of a pool may be disrupted now. Every disruption uses up one of each, whatever its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Budgets {
    /// For reason `Empty`.
    pub empty: u32,
    /// For reason `Underutilized`.
    pub underutilized: u32,
    /// For reason `Drifted`.
    pub drifted: u32,
    /// For nodes that have expired: what budgets say that name no reason.
    pub expired: u32,
}

/// What a move must save.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MinimumSavings {
    /// Of what its nodes cost, in thousandths.
    pub share: u32,
    /// Per hour, for each pod that it evicts.
    pub per_pod: MicroDollars,
    /// For how many milliseconds a new node of the pool is paid before it is of use; a move must earn that back within the time for
    /// which its nodes have stood, a day at most.
    pub warm_up: i64,
}

/// How far requests of pods that stay are lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Packing {
    /// What is added to a pod's use, in thousandths of it.
    pub margin: u32,
    /// What is left of a request at least, in thousandths of it.
    pub floor: u32,
    /// For how many hours a pod must have been watched.
    pub history: u32,
}

/// `kerf.sh/utilization` of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Utilization {
    /// Requests are all that counts.
    Ignore,
    /// Idle nodes go first; busy ones are left alone, and nothing is sent to them.
    #[default]
    Observe,
    /// The same, and requests of pods that stay are lowered in place to what they need.
    Pack,
}

impl Budgets {
    /// As many nodes as one likes, whatever the reason.
    pub const UNLIMITED: Self = Self { empty: u32::MAX, underutilized: u32::MAX, drifted: u32::MAX, expired: u32::MAX };
    /// None, whatever the reason.
    pub const NONE: Self = Self { empty: 0, underutilized: 0, drifted: 0, expired: 0 };
}

impl Default for Budgets {
    fn default() -> Self {
        Self::NONE
    }
}

impl Default for Packing {
    /// A fifth more than the use, at least half of the request, after a day.
    fn default() -> Self {
        Self { margin: 200, floor: 500, history: 24 }
    }
}

impl Default for MinimumSavings {
    /// One percent, and a twentieth of a cent for each pod: with more of it a small node with many pods could never go. EC2 bills a
    /// machine from `running` on, and it is of use 5 s later.
    fn default() -> Self {
        Self { share: 10, per_pod: MicroDollars(500), warm_up: 5_000 }
    }
}

#[cfg(test)]
mod tests {
    use super::{MicroDollars, MinimumSavings};

    /// docs/disruption.md names these figures, and why they are not others.
    #[test]
    fn what_a_move_must_save_by_default() {
        assert_eq!(MinimumSavings::default(), MinimumSavings { share: 10, per_pod: MicroDollars(500), warm_up: 5_000 });
    }
}
