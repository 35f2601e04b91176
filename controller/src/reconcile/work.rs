//! What there is to look at: one key a thing, so that ten changes of a node are one look at it.

use crate::provision::batcher::PlanTrigger;

/// A thing whose state should be compared with what it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkItem {
    /// An EC2NodeClass by name.
    Class(String),
    /// A NodePool by name.
    Pool(String),
    /// A NodeClaim by name.
    Claim(String),
    /// All claims that are to be put into fleets.
    Gather,
    /// The claims that share a launch token.
    Launch(String),
    /// A Node by name.
    Node(String),
    /// A NodeOverlay by name.
    Overlay(String),
    /// A CapacityBuffer by `namespace/name`.
    Buffer(String),
    /// A NodeUsage by name, which is the Node's.
    Usage(String),
    /// A move that is under way, by the list of its replacements.
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

/// What a change calls for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Triggers {
    /// Things to look at.
    pub work: Vec<WorkItem>,
    /// What a plan should answer.
    pub plan: Vec<PlanTrigger>,
}
