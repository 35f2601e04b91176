//! The `kerf` command: what the controller would do with a cluster, told without one.
//!
//! It builds without the EC2 SDK, and without a Kubernetes client when its feature `live` is off, so that it can be tried in
//! minutes; [`input`] and [`plan_input`] also serve the planner's peers.

pub mod adopt;
mod args;
pub mod catalogue;
pub mod convert;
mod explain;
pub mod failure;
pub mod input;
#[cfg(feature = "live")]
mod live;
#[cfg(not(feature = "live"))]
#[path = "live/none.rs"]
mod live;
pub mod money;
pub mod plan_input;
pub mod plan_report;
pub mod prices;
mod run;
mod settings;
pub mod table;
mod types;
mod userdata;
pub mod view;
pub mod workload;

pub use run::run;
