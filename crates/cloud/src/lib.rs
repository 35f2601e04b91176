//! How we buy machines, without the SDK: the calls that we use as a trait, what we know about instance
//! types and prices, how a node class resolves, what a launch asks for, and what was out of stock lately.

pub mod calls;
pub mod contract;
pub mod data;
pub mod error;
pub mod fake;

pub use calls::*;
pub use error::{CloudError, Kind};
