//! What a move is called in metrics and events.

use api::NodeClaim;
use api::objects::Node;
use planner::{CommandReason, RejectedCommand};

use crate::write::events::{Event, ObjectReference};

/// What a move is, as far as it is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandKind {
    /// Why its nodes go, as the condition says it; empty where nobody said.
    pub reason: String,
    /// Whether something comes in their place.
    pub replaces: bool,
    /// How many nodes go.
    pub nodes: usize,
}

impl CommandKind {
    /// What a move was that was planned and never begun.
    #[must_use]
    pub fn from_rejected(dropped: &RejectedCommand) -> Self {
        Self { reason: dropped.reason.as_str().to_owned(), replaces: dropped.replaces, nodes: dropped.size }
    }

    /// Whether nodes go for this reason.
    #[must_use]
    pub fn is(&self, reason: CommandReason) -> bool {
        self.reason == reason.as_str()
    }

    /// Whether replacements have to be ready first: a machine that is unhealthy waits for nobody.
    #[must_use]
    pub fn waits(&self) -> bool {
        !self.is(CommandReason::Unhealthy)
    }

    /// Karpenter's label `reason`.
    #[must_use]
    pub fn label(&self) -> String {
        self.reason.to_lowercase()
    }

    /// Karpenter's label `decision`.
    #[must_use]
    pub fn decision(&self) -> &'static str {
        if self.replaces { "replace" } else { "delete" }
    }

    /// Karpenter's label `consolidation_type`.
    #[must_use]
    pub fn consolidation(&self) -> &'static str {
        match self.nodes {
            _ if self.is(CommandReason::Empty) => "empty",
            1 if self.is(CommandReason::Underutilized) => "single",
            _ if self.is(CommandReason::Underutilized) => "multi",
            _ => "",
        }
    }
}

/// The nodes of a move in a list.
#[must_use]
pub fn named(nodes: &[String]) -> String {
    nodes.join(", ")
}

/// The same event on a claim and on its node.
#[must_use]
pub fn said_of(claim: &NodeClaim, node: Option<&Node>, reason: &'static str, message: &str) -> Vec<Event> {
    let objects = std::iter::once(ObjectReference::to(claim)).chain(node.map(ObjectReference::to));
    objects.map(|object| Event::normal(object, reason, message.to_owned())).collect()
}
