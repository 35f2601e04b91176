//! Exchanges that are rejected, and what that says about smaller groups of the same nodes.

use super::Position;
use crate::NodeVerdict;

/// Reason why nodes are not exchanged.
pub(in crate::disrupt) struct RejectedExchange {
    pub(in crate::disrupt) verdict: NodeVerdict,
    /// Nodes of each part that may be exchanged without the others, where only parts of the exchange saved enough.
    pub(in crate::disrupt) parts: Vec<Vec<Position>>,
    /// True if all pods have places, and these cost so much that a smaller group does not save enough either.
    pub(in crate::disrupt) is_too_expensive: bool,
}

/// Parts of an exchange that do not need each other.
pub(super) struct SeparateParts {
    /// Nodes of each part that saves enough, without single nodes.
    pub(super) worthy: Vec<Vec<Position>>,
    /// Highest savings of a part that does not save enough.
    pub(super) missed: i64,
}

/// Reports whether a verdict excludes that a smaller group saves `least`, the smallest required savings of a node.
pub(super) fn is_too_expensive(verdict: &NodeVerdict, least: i64) -> bool {
    match verdict {
        NodeVerdict::NotWorthIt { saving, .. } => saving.0 < least,
        NodeVerdict::Paid { .. } | NodeVerdict::SpotToSpot { types: None } => true,
        _ => false,
    }
}
