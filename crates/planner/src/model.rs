//! The planner's picture of a cluster at one moment: plain values with integer units.

mod capacity_split;
mod catalogue;
mod node;
mod offer;
mod pod;
mod pool;
mod requirements;
mod resources;
mod sizing;
mod topology;

pub use capacity_split::CapacitySplit;
pub use catalogue::{CapacityType, Catalogue, InstanceType, MicroDollars, Offering, Reservation, label};
pub use node::{BoundPod, Drifted, Leaving, Node, Pressure, Stage, Unhealthy, Usage};
pub use offer::Offer;
pub use pod::{
    Daemon, Effect, HostPort, NodePreference, Pod, PodShape, Taint, Toleration, TolerationOperator, VolumeNeed,
};
pub use pool::{Budgets, ConsolidationPolicy, Disruption, MinimumSavings, Packing, Pool, Utilization};
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

/// Everything that a decision may depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Snapshot {
    /// The moment that the snapshot speaks of.
    pub now: Millis,
    /// Breaks ties that nothing else breaks.
    pub seed: u64,
    /// How hard to try and which of Karpenter's policies apply.
    pub policy: Policy,
    /// Pools that may be used, in any order; not ready or deleting ones are left out by the translator.
    pub pools: Vec<Pool>,
    /// What can be bought; a pool names its catalogue by position.
    pub catalogues: Vec<Arc<Catalogue>>,
    /// Every node and every claim without a node yet.
    pub nodes: Vec<Arc<Node>>,
    /// Distinct scheduling shapes; pods name theirs by position.
    pub shapes: Vec<Arc<PodShape>>,
    /// Pods that need a place: pending ones and those of nodes that are leaving.
    pub pods: Vec<Pod>,
    /// `namespace/name` of claims of these pods that only one pod at a time may use (`ReadWriteOncePod`).
    pub single_claims: BTreeSet<String>,
    /// DaemonSets, whose pods come with every node that they fit.
    pub daemons: Vec<Daemon>,
    /// Until when workloads are left alone that ask to be disturbed but once in a while, by their name in [`BoundPod::workload`]: they
    /// were disturbed not long ago, or have changed themselves.
    pub resting: BTreeMap<String, Millis>,
    /// The labels of every namespace, for terms that select namespaces.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
}

/// Settings of the planner itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policy {
    /// Upper bound on search steps; effort is bounded by work, never by time.
    pub max_steps: u64,
    /// Instance types that one launch may list, cheapest first (Karpenter: 600).
    pub max_instance_types: usize,
    /// Label keys that instance types or the cloud decide: a pool that does not name one leaves it open.
    pub well_known: BTreeSet<String>,
    /// What preferences count for.
    pub preferences: PreferencePolicy,
    /// What happens when `minValues` cannot be met.
    pub min_values: MinValuesPolicy,
    /// Types that a launch which allows spot keeps where its pods' requirements do: the fewer, the surer an interruption.
    pub least_spot_types: usize,
    /// Whether a spot node may be replaced by a cheaper spot node (feature gate `SpotToSpotConsolidation`).
    pub spot_to_spot: bool,
}

/// Karpenter's `PREFERENCE_POLICY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreferencePolicy {
    /// Preferences are constraints until they must be dropped.
    #[default]
    Respect,
    /// Preferences do not count at all.
    Ignore,
}

/// Karpenter's `MIN_VALUES_POLICY`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MinValuesPolicy {
    /// A launch that cannot offer as many values is none.
    #[default]
    Strict,
    /// A launch asks for as many values as there are.
    BestEffort,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_steps: 100_000_000,
            max_instance_types: 600,
            well_known: BTreeSet::new(),
            preferences: PreferencePolicy::Respect,
            min_values: MinValuesPolicy::Strict,
            least_spot_types: 15,
            spot_to_spot: false,
        }
    }
}
