//! Work items: one key for each object, so that ten changes of a node are one reconcile.

use crate::provision::batcher::PlanTrigger;

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
    /// A NodeUsage by name, which is the name of its Node.
    Usage(String),
    /// A command in progress, by the list of its replacements.
    Move(String),
}

impl std::fmt::Display for WorkItem {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Class(name) => write!(out, "ec2nodeclass/{name}"),
            Self::Pool(name) => write!(out, "nodepool/{name}"),
            Self::Claim(name) => write!(out, "nodeclaim/{name}"),
            Self::Gather => write!(out, "gather"),
            Self::Launch(token) => write!(out, "launch/{token}"),
            Self::Node(name) => write!(out, "node/{name}"),
            Self::Overlay(name) => write!(out, "nodeoverlay/{name}"),
            Self::Buffer(key) => write!(out, "capacitybuffer/{key}"),
            Self::Usage(name) => write!(out, "nodeusage/{name}"),
            Self::Move(id) => write!(out, "move/{id}"),
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
