//! Configuration of the simulated cluster: NodePools, disruption budgets and reliability of instances.

use std::collections::BTreeMap;

use api::{annotation, label};
use planner::{CommandReason, MicroDollars};
use serde_json::{Value, json};
use simulator::clock::REPLICAS;

use crate::budget::{Allowed, Budget, Window};
use crate::clock::{HOUR, Moment, SECOND};
use crate::dice::Dice;

/// Largest difference between the clock of a replica and the cluster's clock, in milliseconds.
const MOST_SKEW: i64 = 20 * SECOND;

/// General, compute and memory families of both architectures: enough choice for the planner, and short planning times.
pub const FAMILIES: [&str; 6] = ["c7i", "m7i", "r7i", "c7g", "m7g", "r7g"];

/// NodePool of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Name of the NodePool.
    pub name: &'static str,
    /// Permitted capacity types.
    pub capacity_types: Vec<&'static str>,
    /// Disruption budgets of the NodePool.
    pub budgets: Vec<Budget>,
    /// `expireAfter`, in milliseconds; `None` is `Never`.
    pub expires: Option<Moment>,
}

impl Pool {
    /// Creates a NodePool of on-demand instances that never expire.
    #[must_use]
    pub fn fixed(allowed: Allowed) -> Self {
        let (capacity_types, budgets) = (vec!["on-demand"], vec![Budget::always(allowed)]);
        Self { name: "fixed", capacity_types, budgets, expires: None }
    }
}

/// Minutes of each hour in which the second default NodePool permits no disruption.
const QUIET: Window = Window { opens: 20, lasts: 10 };

/// Replicas of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// One, without leader election.
    One,
    /// Two with leader election, whose clocks differ.
    Elected,
    /// Two without leader election: a wrong configuration, which the simulation must find.
    Unelected,
}

impl Replicas {
    /// Returns the number of replicas.
    #[must_use]
    pub fn count(self) -> usize {
        if self == Self::One { 1 } else { 2 }
    }
}

/// Configuration of a simulation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Seed of all random numbers.
    pub seed: u64,
    /// `kerf.sh/utilization` of the NodePools.
    pub utilization: &'static str,
    /// `kerf.sh/pack-min-history` of the NodePools. Pods of a simulated day do not live as long as the default.
    pub history: &'static str,
    /// Percentage of instances that never register.
    pub duds: u32,
    /// NodePools of the cluster.
    pub pools: Vec<Pool>,
    /// `consolidateAfter`.
    pub after: &'static str,
    /// Available instance families.
    pub families: Vec<&'static str>,
    /// Available instance sizes.
    pub sizes: Vec<&'static str>,
    /// Reaction time of the models and interval of the checks, in milliseconds. Large clusters use whole seconds.
    pub grain: i64,
    /// Replicas of the controller.
    pub replicas: Replicas,
    /// True if cheaper spot nodes may replace spot nodes (feature gate `SpotToSpotConsolidation`).
    pub spot_to_spot: bool,
    /// Maximum cost of all nodes per hour (`MAX_COST_PER_HOUR`).
    pub cost_limit: Option<MicroDollars>,
    /// True if stopped watches confirm their view, which no API server does and the simulation must find.
    pub false_bookmarks: bool,
}

impl Default for Setup {
    /// Returns two NodePools: one prefers spot, the other is on-demand. In the second one, drift disrupts one node at a time,
    /// nodes expire within hours, and no disruption begins in some minutes of each hour.
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
            families: FAMILIES.to_vec(),
            sizes: vec!["large", "xlarge", "2xlarge", "4xlarge", "8xlarge"],
            grain: 500,
            replicas: Replicas::One,
            spot_to_spot: false,
            cost_limit: None,
            false_bookmarks: false,
        }
    }
}

impl Setup {
    /// Returns the NodePools as API objects.
    #[must_use]
    pub fn pools(&self) -> Vec<Value> {
        self.pools.iter().map(|own| self.pool(own)).collect()
    }

    fn pool(&self, own: &Pool) -> Value {
        let budgets: Vec<_> = own.budgets.iter().map(Budget::words).collect();
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": own.name, "uid": own.name, "annotations": {
                annotation::UTILIZATION: self.utilization, annotation::PACK_MIN_HISTORY: self.history,
            }},
            "spec": {
                "disruption": {"consolidateAfter": self.after, "budgets": budgets},
                "template": {"spec": {
                    "requirements": [{"key": label::CAPACITY_TYPE, "operator": "In", "values": own.capacity_types}],
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "expireAfter": own.expires.map_or("Never".to_owned(), |after| format!("{}s", after / SECOND)),
                }},
            },
        })
    }

    /// Returns the disruption budgets by NodePool.
    #[must_use]
    pub fn budgets(&self) -> BTreeMap<String, Vec<Budget>> {
        self.pools.iter().map(|pool| (pool.name.to_owned(), pool.budgets.clone())).collect()
    }

    /// Returns how far the clock of each replica is ahead of the cluster's clock, in milliseconds.
    #[must_use]
    pub fn skews(&self) -> [i64; REPLICAS] {
        let mut dice = Dice::new(self.seed.rotate_left(16));
        match self.replicas {
            Replicas::One => [0; REPLICAS],
            Replicas::Elected | Replicas::Unelected => [0; REPLICAS].map(|_| dice.between(-MOST_SKEW, MOST_SKEW)),
        }
    }

    /// Returns the largest difference between the clock of a replica and the cluster's clock, in milliseconds.
    #[must_use]
    pub fn most_skew(&self) -> i64 {
        self.skews().into_iter().map(i64::abs).max().unwrap_or_default()
    }
}
