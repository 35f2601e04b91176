//! Drift hashes: a fingerprint of what a machine was made from, compared with what it would be made from now.
//!
//! The pool's hash is Karpenter's own, byte for byte, so that a pool may change hands without replacing its
//! nodes. The class's hash is ours and says so in its version, so that foreign hashes are migrated instead of
//! compared.

mod fnv;
mod nodeclass;
mod nodepool;

pub use fnv::fnv1a;
pub use nodeclass::{EC2_NODE_CLASS_VERSION, ec2_node_class};
pub use nodepool::{NODEPOOL_VERSION, node_pool};
