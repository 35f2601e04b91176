//! The controller's view of the cluster: the index of all watched objects, and what recent plans left for later decisions.

pub mod attempts;
pub mod class_readiness;
pub mod cluster;
pub mod decision_log;
pub mod index;
pub mod nominations;
pub mod panics;
pub mod plans;
pub mod registration_health;
pub mod shared;
pub mod span;
pub mod view_ages;
