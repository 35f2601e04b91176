//! Launches on EC2 without the SDK.
//!
//! The crate contains the AWS calls as a trait, instance types and prices, and the resolution of EC2NodeClasses. It also
//! contains launch requests, unavailable offerings, and the IAM policies for all of this.

mod batcher;
pub mod calls;
pub mod claim;
#[cfg(feature = "fake")]
pub mod contract;
pub mod data;
pub mod describe_batcher;
pub mod error;
#[cfg(feature = "fake")]
pub mod fake;
pub mod family;
pub mod guard;
pub mod launch;
pub mod nodeclass;
pub mod policy;
pub mod prices;
pub mod rate_limiter;
mod requirements;
pub mod settings;
pub mod tags;
pub mod terminate_batcher;
pub mod types;
pub mod unavailable_offerings;
pub mod user_data;

pub use calls::*;
pub use error::{CloudError, ErrorKind};
pub use jiff::Timestamp;
pub use requirements::requirements;
pub use settings::Settings;
