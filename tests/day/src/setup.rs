//! Which cluster is simulated: its pools, their budgets, and how reliable machines are.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{NodePool, annotation};
use serde_json::json;

use crate::audit::Allowed;
use crate::world::pool;

/// The cluster of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Chance's seed.
    pub seed: u64,
    /// `kerf.sh/utilization` of the pools.
    pub utilization: &'static str,
    /// `kerf.sh/pack-min-history` of the pools: pods of a day do not live for the usual one.
    pub history: &'static str,
    /// Of a hundred machines so many never come up.
    pub duds: u32,
    /// Pools: name, capacity types, budget.
    pub pools: Vec<(&'static str, Vec<&'static str>, Allowed)>,
    /// `consolidateAfter`.
    pub after: &'static str,
    /// Sizes of machines that are sold.
    pub sizes: Vec<&'static str>,
    /// What happens within so many milliseconds happens at their end: large clusters are played in whole seconds.
    pub grain: i64,
}

impl Default for Setup {
    /// A pool that prefers spot and one for what must stay, as clusters have them.
    fn default() -> Self {
        Self {
            seed: 1,
            utilization: "observe",
            history: "1h",
            duds: 1,
            pools: vec![
                ("general", vec!["spot", "on-demand"], Allowed::Percent(10)),
                ("steady", vec!["on-demand"], Allowed::Nodes(2)),
            ],
            after: "1m",
            sizes: vec!["large", "xlarge", "2xlarge", "4xlarge", "8xlarge"],
            grain: 100,
        }
    }
}

impl Setup {
    /// The pools as objects.
    ///
    /// # Errors
    /// When one cannot be made.
    pub fn pools(&self) -> anyhow::Result<Vec<Arc<NodePool>>> {
        let annotations =
            json!({annotation::UTILIZATION: self.utilization, annotation::PACK_MIN_HISTORY: self.history});
        let of = |(name, types, allowed): &(&str, Vec<&str>, Allowed)| {
            let nodes = match allowed {
                Allowed::Nodes(nodes) => nodes.to_string(),
                Allowed::Percent(percent) => format!("{percent}%"),
            };
            let disruption = json!({"consolidateAfter": self.after, "budgets": [{"nodes": nodes}]});
            pool(name, types, &annotations, &disruption)
        };
        self.pools.iter().map(of).collect()
    }

    /// What may be disturbed at a time, by pool.
    #[must_use]
    pub fn budgets(&self) -> BTreeMap<String, Allowed> {
        self.pools.iter().map(|(name, _, allowed)| ((*name).to_owned(), *allowed)).collect()
    }
}
