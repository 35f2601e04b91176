//! Pods that need a place and that the planner does not get to see, with the reason.

use std::fmt;

/// A pod that stays out of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ignored {
    /// `namespace/name`.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// Why.
    pub reason: IgnoredReason,
}

impl Ignored {
    /// Whether the pod's owner should hear of it: opting out is no news, and waiting pods have a place still.
    #[must_use]
    pub fn deserves_event(&self) -> bool {
        !matches!(self.reason, IgnoredReason::OptedOut | IgnoredReason::DoNotDisrupt | IgnoredReason::BlockedByBudget)
    }
}

/// Why a pod stays out of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoredReason {
    /// It asks for nodes without `karpenter.sh/nodepool`.
    OptedOut,
    /// A request is not a quantity.
    Quantity {
        /// The text of the amount.
        text: String,
    },
    /// Its node affinity selects by field.
    MatchFields,
    /// It compares a label with something that is not one integer.
    Comparison {
        /// The label's key.
        key: String,
    },
    /// A list of values is missing, or stands where none belongs.
    Values {
        /// The label's key.
        key: String,
    },
    /// It asks for a label that belongs to Karpenter alone.
    RestrictedLabel {
        /// The label's key.
        key: String,
    },
    /// Every alternative of its required node affinity is empty, which selects no node at all.
    NoNode,
    /// This solver does not know the constraint yet.
    NotSupported {
        /// Which one.
        constraint: Constraint,
    },
    /// It runs on a leaving node and asks not to be disturbed, so it waits for the deadline.
    DoNotDisrupt,
    /// It runs on a leaving node and its PodDisruptionBudgets can never allow an eviction, so it waits for the deadline.
    BlockedByBudget,
}

/// A constraint that this solver does not know yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// Required pod affinity.
    PodAffinity,
    /// Required pod anti-affinity.
    PodAntiAffinity,
    /// Topology spread with `DoNotSchedule`.
    TopologySpread,
    /// Persistent or ephemeral volume claims.
    Volumes,
    /// Ports on the node.
    HostPorts,
}

impl fmt::Display for Constraint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::PodAffinity => "required pod affinity",
            Self::PodAntiAffinity => "required pod anti-affinity",
            Self::TopologySpread => "topology spread with DoNotSchedule",
            Self::Volumes => "a volume claim",
            Self::HostPorts => "a host port",
        })
    }
}

impl fmt::Display for IgnoredReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OptedOut => out.write_str("it asks for nodes that no pool made"),
            Self::Quantity { text } => write!(out, "its request {text:?} is not a quantity"),
            Self::MatchFields => out.write_str("its node affinity uses matchFields, which a new node cannot promise"),
            Self::Comparison { key } => write!(out, "it compares label {key} with something that is not one integer"),
            Self::Values { key } => {
                write!(out, "its requirement on label {key} has no values, or some where none belong")
            }
            Self::RestrictedLabel { key } => write!(out, "label {key} is Karpenter's own and cannot be asked for"),
            Self::NoNode => out.write_str("its required node affinity has only empty terms, which select no node"),
            Self::NotSupported { constraint } => write!(out, "it has {constraint}, which is not supported yet"),
            Self::DoNotDisrupt => out.write_str("its node is leaving, but it asks not to be disrupted"),
            Self::BlockedByBudget => {
                out.write_str("its node is leaving, but its PodDisruptionBudgets never allow an eviction")
            }
        }
    }
}
