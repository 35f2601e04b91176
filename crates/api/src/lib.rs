//! API types of Kerf: the custom resources, slim Kubernetes objects, names, units and the rules for conditions.
//!
//! The controller and the agent both compile against this crate, so it holds no policy and does no I/O. Its functions translate
//! text, compare values and describe schemas. The current time is a parameter.

pub mod capacity_split;
pub mod crds;
pub mod decisions;
pub mod endpoint;
pub mod hash;
mod names;
pub mod objects;
mod protocol;
mod resources;
mod units;
pub mod usage;
pub mod validate;

pub use capacity_split::{InvalidSplit, RequestedSplit};
pub use crds::crds;
pub use drain::{DrainProgress, DrainRequest, DrainTaken};
pub use names::{annotation, condition, finalizer, label, reason, similar};
pub use protocol::{drain, risk, timeline};
pub use resources::capacitybuffer::{CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus};
pub use resources::cost::commitment::{Commitment, CommitmentSpec, CommitmentStatus};
pub use resources::cost::spendpolicy::{SpendPolicy, SpendPolicySpec, SpendPolicyStatus};
pub use resources::cost::{FieldFault, commitment, spendpolicy};
pub use resources::nodeclaim::{NodeClaim, NodeClaimSpec, NodeClaimStatus};
pub use resources::nodeclass::{EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus};
pub use resources::nodeoverlay::{NodeOverlay, NodeOverlaySpec, NodeOverlayStatus, OverlayRequirement};
pub use resources::nodepool::performance::PerformanceFactors;
pub use resources::nodepool::{NodePool, NodePoolSpec, NodePoolStatus, performance, schedule};
pub use resources::nodeusage::{NodeUsage, NodeUsageSpec};
pub use resources::provisioningrequest::{ProvisioningRequest, ProvisioningRequestSpec, ProvisioningRequestStatus};
pub use resources::requirement::{Operator, Requirement};
pub use resources::status::Condition;
pub use resources::taint::Taint;
pub use resources::{
    capacitybuffer, nodeclaim, nodeclass, nodeoverlay, nodepool, nodeusage, provisioningrequest, requirement, status,
    taint,
};
pub use risk::RebalanceRisk;
pub use units::duration::DurationText;
pub use units::price::PriceChange;
pub use units::quantity::Quantity;
pub use units::{duration, price, quantity};
pub use validate::ineffective;
