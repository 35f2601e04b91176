//! The answer: what to do, and for every pod and node the reason.

mod display;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::{MicroDollars, Requirement, Resources};

/// What one snapshot calls for.
#[must_use]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// NodeClaims to create.
    pub launches: Vec<Launch>,
    /// Pods that an existing or in-flight node has room for; kube-scheduler binds them.
    pub nominations: Vec<Nomination>,
    /// Nodes to give back.
    pub removals: Vec<Removal>,
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
    /// Instance types that all pods of the claim fit, cheapest first, then by name.
    pub instance_types: Vec<String>,
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

/// A node to give back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Removal {
    /// The node's name in the snapshot.
    pub node: String,
    /// Its NodeClaim.
    pub claim: String,
    /// Why it goes.
    pub reason: RemovalReason,
    /// What is saved per hour, where known.
    pub saving: Option<MicroDollars>,
}

/// Why a node goes, in Karpenter's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RemovalReason {
    /// Nothing runs there that would need another place.
    Empty,
}

impl fmt::Display for RemovalReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Empty => "Empty",
        })
    }
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
    },
    /// A place in the plan's launch of this position.
    Launch {
        /// Position in `Plan::launches`.
        launch: usize,
    },
    /// No place: the nearest miss of every pool, in the order in which they were tried.
    Unschedulable {
        /// One entry a pool; empty when there are no pools.
        pools: Vec<PoolMiss>,
    },
    /// `Policy::max_steps` was used up before the pod's turn came; the next plan goes on.
    Postponed,
}

/// Why one pool cannot take a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolMiss {
    /// The pool's name.
    pub pool: String,
    /// What stands in the way.
    pub miss: Miss,
}

/// What stands in the way of a pod in one pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Miss {
    /// The pool has a taint that the pod does not tolerate.
    Taint {
        /// `key=value:effect`.
        taint: String,
    },
    /// The pool's requirements or labels rule the pod's requirement out.
    Requirement {
        /// The key on which they disagree.
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
    /// Every type is ruled out; the counts add up to the number of types.
    Types {
        /// How many types the pool has in all.
        total: usize,
        /// How many have labels that do not match.
        labels: usize,
        /// How many are too small, by the first resource that is short.
        small: Vec<(String, usize)>,
        /// How many match and are large enough but cannot be had now in an allowed zone and capacity type.
        unavailable: usize,
    },
}

/// Why a managed node stays or goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeVerdict {
    /// It goes.
    Remove(RemovalReason),
    /// It is on its way out already.
    Leaving,
    /// Not initialized yet.
    NotInitialized,
    /// Pods run there that would need another place.
    InUse {
        /// How many.
        pods: usize,
    },
    /// This plan or a recent one sends pods there.
    Nominated,
    /// Empty, but not for long enough.
    Quiet {
        /// Milliseconds until it may go.
        remaining: i64,
    },
    /// The pool never consolidates.
    ConsolidationDisabled,
    /// `karpenter.sh/do-not-disrupt` on the node or on one of its pods.
    DoNotDisrupt,
    /// The pool's budget for this reason is used up.
    Budget,
    /// The pool is unknown or not ready.
    NoPool,
}

impl Miss {
    /// How far a pod got before it was turned away: greater is nearer.
    pub(crate) fn nearness(&self) -> u8 {
        match self {
            Self::Taint { .. } => 0,
            Self::Requirement { .. } => 1,
            Self::Types { .. } => 2,
            Self::MinValues { .. } => 3,
            Self::Limit { .. } => 4,
        }
    }

    /// The miss of a pool without a catalogue.
    pub(crate) fn no_types() -> Self {
        Self::Types { total: 0, labels: 0, small: Vec::new(), unavailable: 0 }
    }
}
