//! Output of the planner: the actions, and a reason for every pod and node.

mod commands;
mod display;
mod group_shortage;
mod nodes;
mod partial;
mod preferences;
mod resizes;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use commands::{Balance, CommandCause, CommandReason, Destination, DisruptedNode, PlannedCommand, Relocation};
pub use display::last_attempts;
pub use group_shortage::GroupShortage;
pub use nodes::{NodeVerdict, Overload};
pub use preferences::{Preference, PreferenceDecision};
pub use resizes::{ContainerResize, NotResized, NotResizedReason, Resize, ResizeReason};

use crate::model::{MicroDollars, Requirement, Resources};

/// Decisions for one snapshot.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// NodeClaims to create.
    pub launches: Vec<Launch>,
    /// Pods that fit on an existing or in-flight node; kube-scheduler binds them.
    pub nominations: Vec<Nomination>,
    /// Disruption commands, with their replacements and moved pods.
    pub moves: Vec<PlannedCommand>,
    /// Requests of running pods to change. No command of this plan relies on a lowered one.
    #[serde(default)]
    pub resizes: Vec<Resize>,
    /// Savings per hour of present or future commands whose pods fit only because requests were lowered.
    #[serde(default)]
    pub saved_by_usage: MicroDollars,
    /// Reasons of the decisions.
    pub report: Report,
}

impl Plan {
    /// Reports whether the step budget was exhausted before every pending pod was tried.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.report.pods.contains(&PodVerdict::Postponed)
    }
}

/// NodeClaim to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    /// Name of the NodePool.
    pub pool: String,
    /// Final requirements, without the instance types.
    pub requirements: Vec<Requirement>,
    /// Instance types that fit all pods of the claim, cheapest first, then by name; equal launches share the list.
    pub instance_types: Arc<Vec<String>>,
    /// Requests of the pods and of the minimum DaemonSet overhead over the types.
    pub requests: Resources,
    /// `minValues` of the instance type label, the greatest of the NodePool and its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_instance_types: Option<u32>,
    /// Positions of the pods in the snapshot.
    pub pods: Vec<usize>,
    /// Price of the offering that the launch uses first: the cheapest one, per unit of performance.
    pub price: MicroDollars,
    /// Name of the commitment that pays for the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commitment: Option<String>,
    /// Purpose of the launch.
    pub purpose: Purpose,
    /// True if `minValues` was lowered to the available values (`MinValuesPolicy::BestEffort`).
    #[serde(default)]
    pub min_values_relaxed: bool,
}

impl Launch {
    /// Returns what the launch adds to the bill: its price, or nothing where a commitment pays.
    #[must_use]
    pub fn unpaid_price(&self) -> MicroDollars {
        if self.commitment.is_some() { MicroDollars(0) } else { self.price }
    }
}

/// Purpose of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// Pending pods need the node.
    #[default]
    Provision,
    /// A static NodePool has fewer nodes than replicas: the claim is a copy of the template.
    Static,
    /// A command needs the node: its pods run on removed nodes now.
    Replacement,
}

/// Pending pod that fits on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Nomination {
    /// Position of the pod in the snapshot.
    pub pod: usize,
    /// Name of the node in the snapshot.
    pub node: String,
}

/// Reasons, in the order of the snapshot.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// One verdict per pod, in the order of the snapshot's pods.
    pub pods: Vec<PodVerdict>,
    /// One verdict per managed node, in the order of the snapshot's nodes.
    pub nodes: Vec<(String, NodeVerdict)>,
    /// NodePools without any available type that satisfies their requirements, independent of the pods. Sorted by name.
    #[serde(default, rename = "barren", skip_serializing_if = "Vec::is_empty")]
    pub pools_without_types: Vec<String>,
    /// NodePools whose available types have fewer values of a label than `minValues` requires, independent of the pods. Sorted
    /// by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pools_short_of_values: Vec<String>,
    /// Pods whose NodePool has utilization `Pack` and whose requests are not lowered for another reason than their need, by
    /// node and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unpacked: Vec<NotResized>,
    /// Decisions about workloads whose pods prefer separate hosts, where these hosts have a price.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preferences: Vec<PreferenceDecision>,
    /// Positions of all placed pods, on nodes or launches, in an order in which kube-scheduler could bind them.
    pub order: Vec<usize>,
    /// Number of steps of the search.
    pub steps: u64,
}

/// Place of a pod and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodVerdict {
    /// Place on an existing or in-flight node.
    Existing {
        /// Name of the node in the snapshot.
        node: String,
        /// Reason for this node.
        why: PlacementReason,
        /// Preferences that are not satisfied, in the order in which they were dropped.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dropped: Vec<Preference>,
    },
    /// Place in the plan's launch at this position.
    Launch {
        /// Position in `Plan::launches`.
        launch: usize,
        /// Reason for this launch.
        why: PlacementReason,
        /// Preferences that are not satisfied, in the order in which they were dropped.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dropped: Vec<Preference>,
    },
    /// No place: the nearest miss of every NodePool, in the order in which they were tried.
    Unschedulable {
        /// One entry per NodePool; empty without NodePools. Pods of one shape share the list.
        pools: Arc<[PoolMismatch]>,
    },
    /// The step budget `Policy::max_steps` was exhausted before the pod was tried; the next plan continues.
    Postponed,
}

/// Reason for the place of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PlacementReason {
    /// A recent plan nominated the node.
    Promised,
    /// First node with free capacity: initialized nodes before in-flight ones, by name.
    Room,
    /// Shared launch, because a separate one would cost more.
    Joined,
    /// Node that a static NodePool launches anyway.
    Static,
    /// New launch, because no node and no launch had capacity at a better price.
    Opened,
}

/// Reason why one NodePool cannot take a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolMismatch {
    /// Name of the NodePool.
    pub pool: String,
    /// Unsatisfied constraint.
    pub miss: UnschedulableReason,
}

/// Reason why a pod is unschedulable in one NodePool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UnschedulableReason {
    /// The NodePool has a taint that the pod does not tolerate.
    Taint {
        /// Taint as `key=value:effect`.
        taint: String,
    },
    /// The NodePool's requirements or labels exclude the pod's requirement.
    Requirement {
        /// Label key of the conflict.
        key: String,
        /// Requirements of the NodePool on the label; empty where it has none.
        own: Vec<Requirement>,
        /// Requirements of the pod on the label; empty where the NodePool contradicts itself.
        asked: Vec<Requirement>,
        /// Known label with a similar spelling: perhaps a typing error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        near: Option<String>,
    },
    /// Suitable types exist, but inter-pod constraints leave no domain.
    Topology {
        /// Kind of the constraint.
        standing: TopologyReason,
        /// Topology key.
        key: String,
    },
    /// The NodePool's limit is exhausted.
    Limit {
        /// Resource that would exceed its limit.
        resource: String,
    },
    /// The remaining types have fewer values of a label than `minValues` requires.
    MinValues {
        /// Key of the label.
        key: String,
        /// Required number of values.
        asked: u32,
        /// Available number of values.
        found: usize,
    },
    /// Only spot is available, and the pod belongs to the base of its workload, which never runs on spot.
    SpotOnly,
    /// The NodePool is outside of its active times.
    Inactive,
    /// Nodes that the NodePool launched for the pod came up without taking the pod, or the launches failed.
    Paused {
        /// Number of attempts that failed in a row; 0 while the first one is not decided.
        failures: u32,
        /// Milliseconds until the next launch.
        remaining: i64,
    },
    /// The pod group does not get places for as many pods as it needs, so none of its pods gets one.
    Group(GroupShortage),
    /// Every type is excluded.
    Types(TypesMismatch),
}

/// Inter-pod constraint that leaves no domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TopologyReason {
    /// Topology spread: every domain would exceed the maximum skew.
    Spread {
        /// Maximum skew.
        max_skew: u32,
        /// First few of the domains with the fewest pods, where the pod cannot go; empty if they do not exist yet.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        emptiest: Vec<String>,
    },
    /// Pod affinity: no reachable domain has a matching pod.
    Near,
    /// Own anti-affinity: every domain has matching pods.
    Apart,
    /// Anti-affinity of other pods against this one.
    Shunned,
    /// Another pod uses a `ReadWriteOncePod` volume claim.
    Claimed,
    /// Each constraint alone can be satisfied, but not all of them together.
    Together,
}

/// Reasons why every type of a NodePool is excluded, each counted by its first reason; the counts add up to `total`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TypesMismatch {
    /// Number of types in the NodePool's catalogue.
    pub total: usize,
    /// Types excluded by a label: the label itself, or the lack of an offering with a required value.
    pub labels: Vec<LabelMismatch>,
    /// Number of types that are too small, by the first insufficient resource.
    pub small: Vec<(String, usize)>,
    /// Needed and greatest available amounts of these resources.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shortfalls: Vec<Shortfall>,
    /// Number of types that match and are large enough, but are unavailable.
    pub unavailable: usize,
    /// Number of these that only lack a known price: a NodeOverlay with a price would help.
    pub unpriced: usize,
    /// Number of these with a matching offering in a zone that a zonal shift excludes, by zone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shifted: BTreeMap<String, usize>,
    /// Requirements of the pod whose removal alone would make types match, those with the most types first.
    pub reliefs: Vec<Hint>,
    /// True if the pod requests a million CPUs or more: probably `M` instead of `m`.
    pub suspicious_cpu: bool,
}

/// Amounts of a resource of which every type has too little.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shortfall {
    /// Name of the resource.
    pub resource: String,
    /// Amount that the pod needs, in Kerf's unit.
    pub asked: i64,
    /// Greatest amount that one of the types has beside its DaemonSet pods.
    pub most: i64,
}

/// Types excluded by one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelMismatch {
    /// Key of the label.
    pub key: String,
    /// Number of types.
    pub types: usize,
    /// First few values of these types, sorted; empty when they have none.
    pub found: Vec<String>,
    /// Combined requirements of NodePool and pod on the label.
    pub asked: Vec<Requirement>,
}

/// Change of the pod that would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hint {
    /// Label whose requirement the pod would have to drop.
    pub key: String,
    /// Number of types that would then match.
    pub types: usize,
}

impl PodVerdict {
    /// Returns a label of the reason of an unschedulable pod, for metrics: the reason of the NodePool that came nearest, the
    /// first one among equals. `None` for other pods.
    #[must_use]
    pub fn reason_label(&self) -> Option<&'static str> {
        let Self::Unschedulable { pools } = self else { return None };
        let nearest = pools.iter().rev().max_by_key(|pool| pool.miss.nearness());
        Some(nearest.map_or("no_nodepool", |pool| pool.miss.label()))
    }
}

impl UnschedulableReason {
    /// Returns a label for metrics.
    const fn label(&self) -> &'static str {
        match self {
            Self::Taint { .. } => "taint",
            Self::Requirement { .. } => "requirement",
            Self::Types(types) if types.unavailable > 0 => "unavailable",
            Self::Types(_) => "types",
            Self::SpotOnly => "spot_only",
            Self::MinValues { .. } => "min_values",
            Self::Topology { .. } => "topology",
            Self::Limit { .. } => "limit",
            Self::Inactive => "inactive",
            Self::Paused { .. } => "paused",
            Self::Group(_) => "group",
        }
    }

    /// Returns how close the pod came to a place: greater is nearer.
    pub(crate) fn nearness(&self) -> u8 {
        match self {
            Self::Taint { .. } => 0,
            Self::Requirement { .. } => 1,
            Self::Types(_) | Self::SpotOnly => 2,
            Self::MinValues { .. } => 3,
            Self::Topology { .. } => 4,
            Self::Limit { .. } => 5,
            Self::Inactive | Self::Paused { .. } => 6,
            Self::Group(_) => 7,
        }
    }

    /// Returns the miss of a NodePool without a catalogue.
    pub(crate) fn no_types() -> Self {
        Self::Types(TypesMismatch::default())
    }
}

#[cfg(test)]
mod tests {
    use super::{PodVerdict, PoolMismatch, TypesMismatch, UnschedulableReason};

    #[test]
    fn reason_label_is_that_of_the_nearest_pool() {
        let verdict = |misses: &[UnschedulableReason]| {
            let pool = |miss: &UnschedulableReason| PoolMismatch { pool: "blue".to_owned(), miss: miss.clone() };
            PodVerdict::Unschedulable { pools: misses.iter().map(pool).collect() }.reason_label()
        };
        let taint = UnschedulableReason::Taint { taint: "a:NoSchedule".to_owned() };
        let limit = UnschedulableReason::Limit { resource: "cpu".to_owned() };
        let unavailable = UnschedulableReason::Types(TypesMismatch { unavailable: 2, ..TypesMismatch::default() });
        assert_eq!(verdict(&[]), Some("no_nodepool"));
        assert_eq!(verdict(&[taint.clone(), limit.clone(), taint]), Some("limit"));
        assert_eq!(
            verdict(&[UnschedulableReason::SpotOnly, unavailable.clone()]),
            Some("spot_only"),
            "the first of two"
        );
        assert_eq!(verdict(&[unavailable]), Some("unavailable"));
        assert_eq!(verdict(&[UnschedulableReason::no_types()]), Some("types"));
        assert_eq!(PodVerdict::Postponed.reason_label(), None);
    }
}
