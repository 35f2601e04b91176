//! The `kerf` command: simulates the controller's decisions for a cluster, offline.
//!
//! The crate builds within minutes, because it does not need the EC2 SDK. Without its feature `live`, it needs no Kubernetes
//! client either. `tests/peers` also uses [`input`] and [`plan`].

pub mod adopt;
mod args;
pub mod catalogue;
pub mod convert;
pub mod failure;
mod history;
pub mod input;
mod instance;
#[cfg(feature = "live")]
mod live;
#[cfg(not(feature = "live"))]
#[path = "live/none.rs"]
mod live;
mod output;
pub mod plan;
mod run;

pub use run::run;
