//! Drift hashes: the hash of the settings with which an instance was launched is compared with the hash of the current
//! settings.
//!
//! The hash of a NodePool is Karpenter's own, byte for byte. A NodePool can therefore migrate to Kerf or back without
//! replacement of its nodes. The hash of an EC2NodeClass is Kerf's own and has its own version, so that hashes of other
//! programs are migrated instead of compared.

mod fnv;
mod nodeclass;
mod nodepool;

pub use fnv::fnv1a;
pub use nodeclass::{EC2_NODE_CLASS_VERSION, ec2_node_class};
pub use nodepool::{NODEPOOL_VERSION, node_pool};
