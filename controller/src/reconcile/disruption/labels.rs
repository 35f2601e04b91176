//! Labels of disruption commands in metrics and events.

use api::NodeClaim;
use api::objects::Node;
use planner::{CommandReason, RejectedCommand};

use crate::write::events::{Event, ObjectReference};

/// Kind of a command, as counted in metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandKind {
    /// Reason in the condition; empty without one.
    pub reason: String,
    /// True if the command has replacements.
    pub replaces: bool,
    /// Number of disrupted nodes.
    pub nodes: usize,
}

impl CommandKind {
    /// Returns the kind of a command that was planned and never started.
    #[must_use]
    pub fn from_rejected(dropped: &RejectedCommand) -> Self {
        Self { reason: dropped.reason.as_str().to_owned(), replaces: dropped.replaces, nodes: dropped.size }
    }

    /// Reports whether the command has this reason.
    #[must_use]
    pub fn is(&self, reason: CommandReason) -> bool {
        self.reason == reason.as_str()
    }

    /// Reports whether the command waits for its replacements. A command for unhealthy nodes does not wait.
    #[must_use]
    pub fn waits(&self) -> bool {
        !self.is(CommandReason::Unhealthy)
    }

    /// Returns Karpenter's label `reason`.
    #[must_use]
    pub fn label(&self) -> String {
        self.reason.to_lowercase()
    }

    /// Returns Karpenter's label `decision`.
    #[must_use]
    pub fn decision(&self) -> &'static str {
        if self.replaces { "replace" } else { "delete" }
    }

    /// Returns Karpenter's label `consolidation_type`.
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

/// Joins the names of the nodes of a command.
#[must_use]
pub fn named(nodes: &[String]) -> String {
    nodes.join(", ")
}

/// Returns the same event for a NodeClaim and for its node.
#[must_use]
pub fn said_of(claim: &NodeClaim, node: Option<&Node>, reason: &'static str, message: &str) -> Vec<Event> {
    let objects = std::iter::once(ObjectReference::to(claim)).chain(node.map(ObjectReference::to));
    objects.map(|object| Event::normal(object, reason, message.to_owned())).collect()
}
