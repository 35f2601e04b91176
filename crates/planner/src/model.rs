//! Snapshot of a cluster as the planner's input: plain values with integer units.

mod capacity_split;
mod catalogue;
mod launch_order;
mod node;
mod offer;
mod pod;
mod pool;
mod premium;
mod requirements;
mod resources;
mod sizing;
mod topology;

pub use capacity_split::CapacitySplit;
pub use catalogue::commitment::{Commitment, OnDemandCost, PaidShare};
pub use catalogue::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering, Reservation, label};
pub use launch_order::FirstChoice;
pub use node::{BoundPod, Drifted, Leaving, Node, Pressure, Stage, Unhealthy, Usage};
pub use offer::Offer;
pub use pod::{
    CapacityHolder, Daemon, Effect, HostPort, NodePreference, Pod, PodGroup, PodShape, Taint, Toleration,
    TolerationOperator, VolumeNeed,
};
pub use pool::{
    Budgets, ConsolidationPolicy, Disruption, DriftCanary, LaunchPause, MinimumSavings, Packing, Pool,
    ReplacementState, SpendLimit, Utilization,
};
pub use premium::PreferencePremium;
pub use requirements::{Operator, Requirement, Requirements, ValueSet};
pub use resources::Resources;
pub use sizing::{ContainerSize, NotResizable, PodUtilization, RestoredRequests, Size, Sizing};
pub use topology::{PodPreference, PodTerm, Selector, Spread};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch. The caller reads the clock, never the planner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

/// All data that a decision may depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Snapshot {
    /// Time of the snapshot.
    pub now: Millis,
    /// Seed for ties that no other rule decides.
    pub seed: u64,
    /// Effort of the search and Karpenter's policies.
    pub policy: Policy,
    /// NodePools that may be used, in any order; the caller omits those that are not ready or are being deleted.
    pub pools: Vec<Pool>,
    /// Available instance types and offerings; a NodePool refers to its catalogue by position.
    pub catalogues: Vec<Arc<Catalogue>>,
    /// All nodes, and all claims without a node.
    pub nodes: Vec<Arc<Node>>,
    /// Limits of the cost of several NodePools together.
    pub spend_limits: Vec<SpendLimit>,
    /// Savings Plans and Reserved Instances, in the order in which they pay for nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commitments: Vec<Commitment>,
    /// Distinct scheduling shapes; pods refer to theirs by position.
    pub shapes: Vec<Arc<PodShape>>,
    /// Pods that need a place: pending pods, and those of leaving nodes.
    pub pods: Vec<Pod>,
    /// `namespace/name` of claims of these pods that only one pod at a time may use (`ReadWriteOncePod`).
    pub single_claims: BTreeSet<String>,
    /// DaemonSets, whose pods run on every node that they fit.
    pub daemons: Vec<Daemon>,
    /// End of the present interval of workloads with a minimum interval between disruptions, by their name in
    /// [`BoundPod::workload`]. The interval begins with a disruption of the workload or with its own change.
    pub resting: BTreeMap<String, Millis>,
    /// Labels of every namespace, for terms that select namespaces.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
}

/// Settings of the planner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// Maximum number of search steps; effort is limited by work, never by time.
    pub max_steps: u64,
    /// Maximum number of instance types that one launch may list, cheapest first (Karpenter: 600).
    pub max_instance_types: usize,
    /// Label keys that instance types or the cloud decide: a NodePool without a requirement on such a key leaves it open.
    pub well_known: BTreeSet<String>,
    /// Treatment of preferences.
    pub preferences: PreferencePolicy,
    /// Maximum premium for the preferences of a workload, in NodePools without their own.
    pub preference_premium: PreferencePremium,
    /// Treatment of `minValues` that cannot be satisfied.
    pub min_values: MinValuesPolicy,
    /// Minimum number of types of a launch that allows spot, and at most an eighth of the types that hold its pods alone: fewer
    /// types mean more frequent interruptions.
    pub least_spot_types: usize,
    /// True if a spot node may be replaced by a cheaper spot node (feature gate `SpotToSpotConsolidation`).
    pub spot_to_spot: bool,
}

impl Snapshot {
    /// Returns the commitment with this name.
    #[must_use]
    pub fn commitment(&self, name: &str) -> Option<&Commitment> {
        self.commitments.iter().find(|it| it.name == name)
    }

    /// Returns the names of NodePools outside of their active times.
    #[must_use]
    pub fn inactive_pools(&self) -> BTreeSet<&str> {
        self.pools.iter().filter(|pool| pool.is_inactive).map(|pool| pool.name.as_str()).collect()
    }

    /// Reports whether the cost of the NodePool's nodes is limited, by its own limit or together with other NodePools.
    #[must_use]
    pub fn limits_cost_of(&self, pool: &Pool) -> bool {
        pool.cost_limit.is_some() || self.spend_limits.iter().any(|limit| limit.pools.contains(&pool.name))
    }

    /// Adds the hourly cost of a node of this NodePool to the NodePool's cost and to all limited costs.
    pub fn add_cost(&mut self, pool: &str, cost: MicroDollars) {
        let own = self.pools.iter_mut().filter(|it| it.name == pool).map(|it| &mut it.cost);
        let limited = self.spend_limits.iter_mut().filter(|it| it.pools.contains(pool)).map(|it| &mut it.cost);
        own.chain(limited).for_each(|sum| sum.0 += cost.0);
    }
}

impl Policy {
    /// Number of types that hold a pod for each type that a spot launch must keep.
    pub const TYPES_PER_CHOICE: usize = 8;

    /// Returns how many types a launch that allows spot must keep if this many types hold its pods alone.
    #[must_use]
    pub fn least_types_of(&self, holding: usize) -> usize {
        let least = self.least_spot_types.min(self.max_instance_types);
        least.min(holding / Self::TYPES_PER_CHOICE).max(1)
    }
}

/// Karpenter's `PREFERENCE_POLICY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreferencePolicy {
    /// Preferences are constraints until they must be dropped.
    #[default]
    Respect,
    /// Preferences are ignored.
    Ignore,
}

/// Karpenter's `MIN_VALUES_POLICY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MinValuesPolicy {
    /// A launch with fewer values is not made.
    #[default]
    Strict,
    /// A launch requires as many values as are available.
    BestEffort,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_steps: 100_000_000,
            max_instance_types: 600,
            well_known: BTreeSet::new(),
            preferences: PreferencePolicy::Respect,
            preference_premium: PreferencePremium::default(),
            min_values: MinValuesPolicy::Strict,
            least_spot_types: 15,
            spot_to_spot: false,
        }
    }
}
