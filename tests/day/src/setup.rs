//! Which cluster is simulated: its pools, their budgets, and how reliable machines are.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{NodePool, annotation};
use planner::CommandReason;
use serde_json::json;

use crate::budget::{Allowed, Budget, Window};
use crate::clock::{HOUR, Moment, SECOND};
use crate::world::pool;

/// A pool of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: &'static str,
    /// Capacity types that it allows.
    pub capacity_types: Vec<&'static str>,
    /// Its budgets.
    pub budgets: Vec<Budget>,
    /// `expireAfter`, in milliseconds; `Never` without one.
    pub expires: Option<Moment>,
}

impl Pool {
    /// One of on-demand machines that stay as long as they like.
    #[must_use]
    pub fn fixed(allowed: Allowed) -> Self {
        let (capacity_types, budgets) = (vec!["on-demand"], vec![Budget::always(allowed)]);
        Self { name: "fixed", capacity_types, budgets, expires: None }
    }
}

/// Minutes of each hour in which the usual second pool is left alone.
const QUIET: Window = Window { opens: 20, lasts: 10 };

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
    /// Its pools.
    pub pools: Vec<Pool>,
    /// `consolidateAfter`.
    pub after: &'static str,
    /// Sizes of machines that are sold.
    pub sizes: Vec<&'static str>,
    /// What happens within so many milliseconds happens at their end: large clusters are played in whole seconds.
    pub grain: i64,
}

impl Default for Setup {
    /// A pool that prefers spot, and one for what must stay: there drift takes one node at a time, every node is renewed within hours, and
    /// nothing begins in some minutes of each hour.
    fn default() -> Self {
        Self {
            seed: 1,
            utilization: "observe",
            history: "1h",
            duds: 1,
            pools: vec![
                Pool {
                    name: "general",
                    capacity_types: vec!["spot", "on-demand"],
                    budgets: vec![Budget::always(Allowed::Percent(10))],
                    expires: None,
                },
                Pool {
                    name: "steady",
                    capacity_types: vec!["on-demand"],
                    budgets: vec![
                        Budget::always(Allowed::Nodes(2)),
                        Budget { reasons: vec![CommandReason::Drifted], ..Budget::always(Allowed::Nodes(1)) },
                        Budget { window: Some(QUIET), ..Budget::always(Allowed::Nodes(0)) },
                    ],
                    expires: Some(6 * HOUR),
                },
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
        let of = |own: &Pool| {
            let budgets: Vec<_> = own.budgets.iter().map(Budget::words).collect();
            let disruption = json!({"consolidateAfter": self.after, "budgets": budgets});
            let expires = own.expires.map_or("Never".to_owned(), |after| format!("{}s", after / SECOND));
            pool(own.name, &own.capacity_types, &annotations, &disruption, &expires)
        };
        self.pools.iter().map(of).collect()
    }

    /// What may be disturbed at a time, by pool.
    #[must_use]
    pub fn budgets(&self) -> BTreeMap<String, Vec<Budget>> {
        self.pools.iter().map(|pool| (pool.name.to_owned(), pool.budgets.clone())).collect()
    }
}
