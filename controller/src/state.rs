//! The controller's view of the cluster: the index of all watched objects, and what recent plans left for later decisions.

pub mod attempts;
pub mod class_readiness;
pub mod cluster;
pub mod index;
pub mod nominations;
pub mod plan_progress;
pub mod plan_results;
pub mod pod_decisions;
pub mod registration_health;
pub mod shared;
pub mod span;
