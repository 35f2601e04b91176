//! Nodes that go, with all that belongs to their going.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::model::{ConsolidationPolicy, MicroDollars};

/// Nodes that go together: their pods need places that only the whole of it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedCommand {
    /// Why.
    pub reason: CommandReason,
    /// The nodes that go, by name.
    pub nodes: Vec<DisruptedNode>,
    /// Positions of the launches that must be up before any of the nodes goes.
    pub replacements: Vec<usize>,
    /// Where the nodes' pods have room then.
    pub pods: Vec<Relocation>,
    /// What is saved per hour: negative where the replacements cost more; `None` where a price is unknown.
    pub saving: Option<MicroDollars>,
    /// What it counts for to disrupt these nodes, in units of [`crate::BoundPod::COST`].
    pub cost: i64,
    /// Why these nodes, in a sentence's worth.
    pub why: CommandCause,
}

/// A node that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DisruptedNode {
    /// The node's name in the snapshot.
    pub node: String,
    /// Its NodeClaim.
    pub claim: String,
}

/// Where a pod of a leaving node has room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Relocation {
    /// The pod's UID.
    pub uid: String,
    /// `namespace/name`.
    pub pod: String,
    /// The node that it leaves.
    pub from: String,
    /// The node or launch that has room.
    pub to: Destination,
    /// Whether a copy is to be up there before the pod is evicted, as its workload asks.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub surge: bool,
}

/// A place for a pod that moves.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Destination {
    /// The node's name in the snapshot.
    Node(String),
    /// Position in `Plan::launches`.
    Launch(usize),
}

/// Why nodes go, in Karpenter's words. What EC2 takes is no move: such a node is leaving already, see [`crate::Leaving`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum CommandReason {
    /// Nothing runs there that would need another place.
    Empty,
    /// Their pods have cheaper places.
    Underutilized,
    /// They are not what their pool and class ask for.
    Drifted,
    /// They are as old as they may get.
    Expired,
    /// They are unhealthy.
    Unhealthy,
    /// A static pool has more nodes than it asks for.
    Static,
}

/// What made the planner choose a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CommandCause {
    /// Nothing runs there that would need another place.
    NothingRuns,
    /// All pods have room on nodes that are there.
    RoomElsewhere,
    /// Fewer dollars for the same pods.
    Cheaper,
    /// The node's condition `Drifted` has this reason.
    Drifted {
        /// Such as `NodePoolDrifted`.
        reason: String,
    },
    /// Its `expireAfter` is over.
    Expired,
    /// A condition says that it is unhealthy.
    Sick {
        /// Such as `Ready`.
        condition: String,
    },
    /// The static pool has so many nodes too many.
    Surplus,
}

/// What a move that saves money means for one of its pools (core 4.12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balance {
    /// The pool's name.
    pub pool: String,
    /// Its policy: only `Balanced` asks for a score.
    pub policy: ConsolidationPolicy,
    /// The share of the pool's cost that is saved, divided by the share of its disruption that is caused, in thousandths; 0 where
    /// nothing is saved.
    pub score: i64,
    /// Whether the score is [`Balance::ENOUGH`] at least.
    pub holds: bool,
}

impl Balance {
    /// The least score that is enough, in thousandths: half.
    pub const ENOUGH: i64 = 500;
}

impl PlannedCommand {
    /// The same where launches are counted from another number on.
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
    /// As Karpenter writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Underutilized => "Underutilized",
            Self::Drifted => "Drifted",
            Self::Expired => "Expired",
            Self::Unhealthy => "Unhealthy",
            Self::Static => "Static",
        }
    }
}

impl fmt::Display for CommandReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
