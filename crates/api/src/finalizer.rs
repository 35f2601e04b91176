//! Every finalizer name, once.

/// On NodeClaims and their Nodes: termination has not finished.
pub const TERMINATION: &str = "karpenter.sh/termination";
/// On EC2NodeClasses: claims, launch templates or instance profiles of the class are left.
pub const EC2_NODE_CLASS_TERMINATION: &str = "karpenter.k8s.aws/termination";
