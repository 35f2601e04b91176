//! Metrics of the controller: their definitions, and the code that counts.

mod bounded_names;
pub mod collector;
pub mod counters;
mod definitions;
pub mod detail;
pub mod gauge_set;
pub mod node_conditions;
pub mod process_usage;

pub use definitions::*;
