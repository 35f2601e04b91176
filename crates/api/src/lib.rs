//! API types of Kerf: the custom resources, slim Kubernetes objects, names, units and the rules for conditions.
//!
//! The controller and the agent both compile against this crate, so it holds no policy and does no I/O. Its functions translate
//! text, compare values and describe schemas. The current time is a parameter.

pub mod annotation;
pub mod capacitybuffer;
pub mod condition;
pub mod crds;
pub mod drain;
pub mod duration;
pub mod finalizer;
pub mod hash;
pub mod label;
pub mod mix;
pub mod nodeclaim;
pub mod nodeclass;
pub mod nodeoverlay;
pub mod nodepool;
pub mod nodeusage;
pub mod objects;
pub mod performance;
pub mod price;
pub mod quantity;
pub mod reason;
pub mod requirement;
pub mod risk;
pub mod schedule;
mod schema;
pub mod status;
pub mod taint;
pub mod usage;
pub mod validate;

pub use capacitybuffer::{CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus};
pub use crds::crds;
pub use drain::{DrainRequest, DrainSaid, DrainTaken};
pub use duration::DurationText;
pub use mix::{InvalidMix, MixSaid};
pub use nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus};
pub use nodeclass::{EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus};
pub use nodeoverlay::{NodeOverlay, NodeOverlaySpec, NodeOverlayStatus, OverlayRequirement};
pub use nodepool::{NodePool, NodePoolSpec, NodePoolStatus};
pub use nodeusage::{NodeUsage, NodeUsageSpec};
pub use performance::PerformanceFactors;
pub use price::PriceChange;
pub use quantity::Quantity;
pub use requirement::{Operator, Requirement};
pub use risk::RiskSaid;
pub use status::Condition;
pub use taint::Taint;
