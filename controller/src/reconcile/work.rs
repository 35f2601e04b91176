//! Work items: one key for each object, so that ten changes of a node are one reconcile.

use tracing::{Span, info_span};

use crate::provision::batcher::PlanTrigger;
use crate::state::span;

/// Object to reconcile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkItem {
    /// An EC2NodeClass by name.
    Class(String),
    /// A NodePool by name.
    Pool(String),
    /// A NodeClaim by name.
    Claim(String),
    /// NodeClaims that are to be grouped into fleets.
    Gather,
    /// NodeClaims that share a launch token.
    Launch(String),
    /// A Node by name.
    Node(String),
    /// A NodeOverlay by name.
    Overlay(String),
    /// A CapacityBuffer by `namespace/name`.
    Buffer(String),
    /// A ProvisioningRequest by `namespace/name`.
    Request(String),
    /// A SpendPolicy by name.
    SpendPolicy(String),
    /// A Commitment by name.
    Commitment(String),
    /// A NodeUsage by name, which is the name of its Node.
    Usage(String),
    /// A command in progress, by the list of its replacements.
    Move(String),
}

impl WorkItem {
    /// Returns the span of the log for a reconcile of this item.
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Self::Class(name) => span::object("EC2NodeClass", name),
            Self::Pool(name) => span::object("NodePool", name),
            Self::Claim(name) => span::object("NodeClaim", name),
            Self::Gather => span::task("gather"),
            Self::Launch(token) => info_span!("launch", token),
            Self::Node(name) => span::object("Node", name),
            Self::Overlay(name) => span::object("NodeOverlay", name),
            Self::Buffer(key) => span::object("CapacityBuffer", key),
            Self::Request(key) => span::object("ProvisioningRequest", key),
            Self::SpendPolicy(name) => span::object("SpendPolicy", name),
            Self::Commitment(name) => span::object("Commitment", name),
            Self::Usage(name) => span::object("NodeUsage", name),
            Self::Move(id) => info_span!("command", replacements = id),
        }
    }
}

/// Work and plans that a change triggers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    /// Work items to enqueue.
    pub work: Vec<WorkItem>,
    /// Triggers of the next plan.
    pub plan: Vec<PlanTrigger>,
}
