//! How we buy machines, without the SDK: the calls that we use as a trait, what we know about instance
//! types and prices, how a node class resolves, what a launch asks for, what was out of stock lately,
//! and the rights that all this takes.

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
pub mod settings;
pub mod terminate_batcher;
pub mod types;
pub mod unavailable_offerings;
pub mod user_data;

pub use calls::*;
pub use error::{CloudError, ErrorKind};
pub use jiff::Timestamp;
pub use settings::Settings;
