//! Launches on EC2 without the SDK.
//!
//! The crate contains the AWS calls as a trait, instance types and prices, and the resolution of EC2NodeClasses. It also
//! contains launch requests, unavailable offerings, and the IAM policies for all of this.

pub mod calls;
#[cfg(feature = "fake")]
pub mod contract;
pub mod data;
#[cfg(feature = "fake")]
pub mod fake;
pub mod launch;
pub mod nodeclass;
pub mod policy;
mod requirements;
pub mod settings;
pub mod tags;
pub mod types;
pub mod unavailable_offerings;

pub use calls::*;
pub use jiff::Timestamp;
pub use requirements::requirements;
pub use settings::Settings;
