//! The answer: what to do, and for every pod and node the reason.

mod commands;
mod display;
mod nodes;
mod partial;
mod resizes;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use commands::{Balance, CommandCause, CommandReason, Destination, DisruptedNode, PlannedCommand, Relocation};
pub use nodes::{NodeVerdict, Overload};
pub use resizes::{ContainerResize, NotResized, NotResizedReason, Resize, ResizeReason};

use crate::model::{CapacityType, MicroDollars, Requirement, Resources};

/// What one snapshot calls for.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// NodeClaims to create.
    pub launches: Vec<Launch>,
    /// Pods that an existing or in-flight node has room for; kube-scheduler binds them.
    pub nominations: Vec<Nomination>,
    /// Nodes to give back, with what that takes.
    pub moves: Vec<PlannedCommand>,
    /// Requests to change where their pods are. No move of this plan counts on one that is lowered.
    #[serde(default)]
    pub resizes: Vec<Resize>,
    /// What moves save per hour, or will, that have room only because requests were lowered.
    #[serde(default)]
    pub saved_by_usage: MicroDollars,
    /// Why.
    pub report: Report,
}

/// One NodeClaim to create.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    /// The NodePool.
    pub pool: String,
    /// The final requirements, without the instance types.
    pub requirements: Vec<Requirement>,
    /// Instance types that all pods of the claim fit, cheapest first, then by name; equal launches share the list.
    pub instance_types: Arc<Vec<String>>,
    /// Requests of the pods and of the least daemon overhead over the types.
    pub requests: Resources,
    /// `minValues` of the instance types themselves, the greatest that the pool and its pods ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_instance_types: Option<u32>,
    /// Positions of the pods in the snapshot.
    pub pods: Vec<usize>,
    /// The cheapest available compatible offering.
    pub price: MicroDollars,
    /// What it is for.
    pub purpose: Purpose,
    /// Whether `minValues` was lowered to what there is (`MinValuesPolicy::BestEffort`).
    #[serde(default)]
    pub min_values_relaxed: bool,
}

/// What a launch is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Purpose {
    /// Pods wait for it.
    #[default]
    Provision,
    /// A static pool has fewer nodes than replicas: the claim is made straight from the template.
    Static,
    /// A move waits for it: the pods that have room there run on nodes that go.
    Replacement,
}

/// A pod that has room on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Nomination {
    /// Position of the pod in the snapshot.
    pub pod: usize,
    /// The node's name in the snapshot.
    pub node: String,
}

/// The reasons, in the order of the snapshot.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// One verdict a pod, in the order of the snapshot's pods.
    pub pods: Vec<PodVerdict>,
    /// One verdict a managed node, in the order of the snapshot's nodes.
    pub nodes: Vec<(String, NodeVerdict)>,
    /// Pools that can buy nothing at all, whatever pods ask for: no type is as they require and can be had. By name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub barren: Vec<String>,
    /// Pods of pools that pack whose requests stay for another reason than that they are needed, by node and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unpacked: Vec<NotResized>,
    /// Positions of all placed pods, on nodes or launches, in an order in which kube-scheduler could bind them.
    pub order: Vec<usize>,
    /// Steps that the search took.
    pub steps: u64,
}

/// Where a pod goes and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodVerdict {
    /// Room on a node that exists or is on its way.
    Existing {
        /// The node's name in the snapshot.
        node: String,
        /// Why that one.
        why: PlacementReason,
        /// Preferences that could not be kept, in the order in which they were dropped.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dropped: Vec<Preference>,
    },
    /// A place in the plan's launch of this position.
    Launch {
        /// Position in `Plan::launches`.
        launch: usize,
        /// Why that one.
        why: PlacementReason,
        /// Preferences that could not be kept, in the order in which they were dropped.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dropped: Vec<Preference>,
    },
    /// No place: the nearest miss of every pool, in the order in which they were tried.
    Unschedulable {
        /// One entry a pool; empty when there are no pools.
        pools: Vec<PoolMismatch>,
    },
    /// `Policy::max_steps` was used up before the pod's turn came; the next plan goes on.
    Postponed,
}

/// Why a pod got this place and no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PlacementReason {
    /// A recent plan promised it.
    Promised,
    /// It is the first node with room: initialized ones before those on their way, by name.
    Room,
    /// It shares the launch, since a separate one would be dearer.
    Joined,
    /// A static pool gets the node anyway.
    Static,
    /// No node and no launch had room at a better price.
    Opened,
}

/// A preference that was dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Preference {
    /// Pods that it would like to be near.
    Near {
        /// 1 to 100.
        weight: i32,
        /// The topology key.
        key: String,
    },
    /// Pods that it would like to be apart from.
    Apart {
        /// 1 to 100.
        weight: i32,
        /// The topology key.
        key: String,
    },
    /// Nodes that it would like.
    Nodes {
        /// 1 to 100.
        weight: i32,
        /// What it would like of them.
        term: Vec<Requirement>,
    },
    /// An even spread that is not required.
    Spread {
        /// The topology key.
        key: String,
    },
    /// Nodes without `PreferNoSchedule` taints.
    SoftTaints,
    /// The part that its workload's share gives it.
    Share {
        /// On which side of the share it was to be: spot, or else on-demand.
        of: CapacityType,
    },
}

/// Why one pool cannot take a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolMismatch {
    /// The pool's name.
    pub pool: String,
    /// What stands in the way.
    pub miss: UnschedulableReason,
}

/// What stands in the way of a pod in one pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UnschedulableReason {
    /// The pool has a taint that the pod does not tolerate.
    Taint {
        /// `key=value:effect`.
        taint: String,
    },
    /// The pool's requirements or labels rule the pod's requirement out.
    Requirement {
        /// The key on which they disagree.
        key: String,
        /// What the pool makes of the label; empty where it gives none.
        own: Vec<Requirement>,
        /// What the pod asks of it; empty where the pool contradicts itself.
        asked: Vec<Requirement>,
        /// A label that is known and written nearly alike: perhaps a slip of the pen.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        near: Option<String>,
    },
    /// Types would do, but no domain is left for the pod beside the others.
    Topology {
        /// How it stands to them.
        standing: TopologyReason,
        /// The topology key.
        key: String,
    },
    /// The pool's limit leaves no room.
    Limit {
        /// The resource that would go over its limit.
        resource: String,
    },
    /// The types that are left offer fewer values of a label than `minValues` asks for.
    MinValues {
        /// The label's key.
        key: String,
        /// How many values the requirement asks for.
        asked: u32,
        /// How many there are.
        found: usize,
    },
    /// Only spot can be had, and the pod is of the base that its workload keeps off spot.
    SpotOnly,
    /// Every type is ruled out.
    Types(TypesMismatch),
}

/// Which demand on other pods leaves no domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TopologyReason {
    /// A spread: every domain would hold too many more than the emptiest one.
    Spread {
        /// The most by which domains may differ.
        max_skew: u32,
    },
    /// Affinity: the pods that it must be near are nowhere that it can go.
    Near,
    /// Anti-affinity of its own: pods that it must keep away from are everywhere.
    Apart,
    /// Anti-affinity of others against it.
    Shunned,
    /// Another pod has a volume claim that only one pod at a time may use.
    Claimed,
    /// Each demand alone could be met, all together cannot.
    Together,
}

/// Why every type of a pool is ruled out, each by its first reason; the counts add up to `total`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TypesMismatch {
    /// How many types the pool's class has in all.
    pub total: usize,
    /// How many cannot have a label, or are not sold with a value of it, as required; by label.
    pub labels: Vec<LabelMismatch>,
    /// How many are too small, by the first resource that is short.
    pub small: Vec<(String, usize)>,
    /// How many match and are large enough, but are sold out as required.
    pub unavailable: usize,
    /// How many of those only for want of a known price: an overlay that says one would help.
    pub unpriced: usize,
    /// The pod's requirements of which any one stands in the way of types that would do, those of most types first.
    pub reliefs: Vec<Hint>,
    /// Whether the pod asks for a million CPUs or more: `M` for `m`, most likely.
    pub suspicious_cpu: bool,
}

/// Types that fall out for one label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelMismatch {
    /// The label's key.
    pub key: String,
    /// How many types.
    pub types: usize,
    /// The first few values that such types have, by value; empty when they have none.
    pub found: Vec<String>,
    /// What pool and pod ask of the label together.
    pub asked: Vec<Requirement>,
}

/// What would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hint {
    /// The label on which the pod would have to ask for less.
    pub key: String,
    /// How many types would then do.
    pub types: usize,
}

impl UnschedulableReason {
    /// How far a pod got before it was turned away: greater is nearer.
    pub(crate) fn nearness(&self) -> u8 {
        match self {
            Self::Taint { .. } => 0,
            Self::Requirement { .. } => 1,
            Self::Types(_) | Self::SpotOnly => 2,
            Self::MinValues { .. } => 3,
            Self::Topology { .. } => 4,
            Self::Limit { .. } => 5,
        }
    }

    /// The miss of a pool without a catalogue.
    pub(crate) fn no_types() -> Self {
        Self::Types(TypesMismatch::default())
    }
}
