//! The `kerf` command: simulates the controller's decisions for a cluster, offline.
//!
//! The crate builds within minutes, because it does not need the EC2 SDK. Without its feature `live`, it needs no Kubernetes
//! client either. `tests/peers` also uses [`input`] and [`plan_input`].

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
pub mod table;
mod types;
mod userdata;
pub mod view;
pub mod workload;

pub use run::run;
