//! Disruption commands: nodes to remove, with their replacements and moved pods.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::{ConsolidationPolicy, MicroDollars};

/// Nodes that are removed together, because the places of their pods exist only for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedCommand {
    /// Reason of the command.
    pub reason: CommandReason,
    /// Nodes to remove, by name.
    pub nodes: Vec<DisruptedNode>,
    /// Positions of the launches that must be initialized before a node is removed.
    pub replacements: Vec<usize>,
    /// Places of the nodes' pods afterwards.
    pub pods: Vec<Relocation>,
    /// Savings per hour: negative where the replacements cost more; `None` where a price is unknown.
    pub saving: Option<MicroDollars>,
    /// Disruption cost of these nodes, in units of [`crate::BoundPod::COST`].
    pub cost: i64,
    /// Cause of the choice of these nodes.
    pub why: CommandCause,
}

/// Node to remove.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DisruptedNode {
    /// Name of the node in the snapshot.
    pub node: String,
    /// Name of its NodeClaim.
    pub claim: String,
}

/// Place of a pod of a removed node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Relocation {
    /// UID of the pod.
    pub uid: String,
    /// `namespace/name`.
    pub pod: String,
    /// Node that the pod leaves.
    pub from: String,
    /// Node or launch with capacity for the pod.
    pub to: Destination,
    /// True if a copy must run there before the pod is evicted, as its workload requests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub surge: bool,
}

/// Place for a moved pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Destination {
    /// Name of the node in the snapshot.
    Node(String),
    /// Position in `Plan::launches`.
    Launch(usize),
}

/// Reason for the removal of nodes, in Karpenter's terms. An EC2 interruption is no command: such a node is leaving already,
/// see [`crate::Leaving`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CommandReason {
    /// No pod on the node would need another place.
    Empty,
    /// The pods have cheaper places.
    Underutilized,
    /// The nodes do not match their NodePool and EC2NodeClass any more.
    Drifted,
    /// The nodes are older than `expireAfter`.
    Expired,
    /// The nodes are unhealthy.
    Unhealthy,
    /// The NodePool is outside of its active times.
    Inactive,
    /// A static NodePool has more nodes than replicas.
    Static,
}

/// Cause of the planner's choice of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CommandCause {
    /// No pod on the node would need another place.
    NothingRuns,
    /// All pods fit on existing nodes.
    RoomElsewhere,
    /// The same pods cost less on other nodes.
    Cheaper,
    /// The node's condition `Drifted` has this reason.
    Drifted {
        /// Reason, such as `NodePoolDrifted`.
        reason: String,
    },
    /// The node is older than its `expireAfter`.
    Expired,
    /// A condition marks the node as unhealthy.
    Unhealthy {
        /// Type of the condition, such as `Ready`.
        condition: String,
    },
    /// The NodePool is outside of its active times.
    OutsideActiveTimes,
    /// The static NodePool has surplus nodes.
    Surplus,
}

/// Balance of savings and disruption for one NodePool of a command that saves money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Name of the NodePool.
    pub pool: String,
    /// Policy of the NodePool: only `Balanced` requires a score.
    pub policy: ConsolidationPolicy,
    /// Saved share of the NodePool's cost, divided by the caused share of its disruption cost, in thousandths; 0 where nothing
    /// is saved.
    pub score: i64,
    /// True if the score is at least [`Balance::ENOUGH`].
    pub holds: bool,
}

impl Balance {
    /// Minimum score, in thousandths: half.
    pub const ENOUGH: i64 = 500;
}

impl PlannedCommand {
    /// Returns the command with launch numbers shifted by `first`.
    pub(crate) fn counted_from(mut self, first: usize) -> Self {
        self.replacements.iter_mut().for_each(|launch| *launch += first);
        for pod in &mut self.pods {
            if let Destination::Launch(launch) = &mut pod.to {
                *launch += first;
            }
        }
        self
    }
}

impl CommandReason {
    /// All reasons.
    pub const ALL: [Self; 6] =
        [Self::Empty, Self::Underutilized, Self::Drifted, Self::Expired, Self::Unhealthy, Self::Static];

    /// Reports whether commands for this reason are validated for some time. The other reasons correct an existing problem.
    #[must_use]
    pub fn is_validated(self) -> bool {
        matches!(self, Self::Empty | Self::Underutilized)
    }

    /// Returns Karpenter's name of the reason.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Underutilized => "Underutilized",
            Self::Drifted => "Drifted",
            Self::Expired => "Expired",
            Self::Unhealthy => "Unhealthy",
            Self::Inactive => "Inactive",
            Self::Static => "Static",
        }
    }
}

impl fmt::Display for CommandReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
