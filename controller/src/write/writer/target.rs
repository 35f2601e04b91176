//! Objects that operations change.

use tracing::Span;

use crate::state::span;

/// Custom resource of Kerf, or a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A NodeClaim by name.
    Claim(String),
    /// A NodePool by name.
    Pool(String),
    /// An EC2NodeClass by name.
    Class(String),
    /// A Node by name.
    Node(String),
    /// A NodeOverlay by name.
    Overlay(String),
    /// A CapacityBuffer.
    Buffer {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
    /// A ProvisioningRequest.
    Request {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
    /// A SpendPolicy by name.
    SpendPolicy(String),
    /// A Commitment by name.
    Commitment(String),
    /// A NodeUsage by name.
    Usage(String),
}

impl Target {
    pub(super) fn span(&self) -> Span {
        match self {
            Self::Claim(name) => span::object("NodeClaim", name),
            Self::Pool(name) => span::object("NodePool", name),
            Self::Class(name) => span::object("EC2NodeClass", name),
            Self::Node(name) => span::object("Node", name),
            Self::Overlay(name) => span::object("NodeOverlay", name),
            Self::Buffer { namespace, name } => span::object("CapacityBuffer", &format!("{namespace}/{name}")),
            Self::Request { namespace, name } => span::object("ProvisioningRequest", &format!("{namespace}/{name}")),
            Self::SpendPolicy(name) => span::object("SpendPolicy", name),
            Self::Commitment(name) => span::object("Commitment", name),
            Self::Usage(name) => span::object("NodeUsage", name),
        }
    }
}
