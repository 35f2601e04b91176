//! Status of objects that each plan evaluates, as the last plan found them.

pub mod buffer;
pub mod overlay;
pub mod spend_policy;
