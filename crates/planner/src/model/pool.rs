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

/// The part of a NodePool's disruption block that emptiness needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Disruption {
    /// How long a node must have been quiet, in milliseconds; `None` is `Never`.
    pub consolidate_after: Option<i64>,
    /// How many more nodes may be disrupted now for reason `Empty`; the translator has applied the budgets to the node count.
    pub empty_budget: u32,
}
