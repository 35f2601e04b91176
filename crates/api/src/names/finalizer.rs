//! Finalizer names, each defined once.

/// Finalizer of NodeClaims and their Nodes during termination.
pub const TERMINATION: &str = "karpenter.sh/termination";
/// Finalizer of EC2NodeClasses while NodeClaims, launch templates or instance profiles of the class exist.
pub const EC2_NODE_CLASS_TERMINATION: &str = "karpenter.k8s.aws/termination";
