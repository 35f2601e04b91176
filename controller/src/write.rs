//! Changes of the cluster: the writer with its operations, the bodies of patches, and events.

pub mod events;
pub mod patches;
pub mod writer;
