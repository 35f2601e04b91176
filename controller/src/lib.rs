//! The controller: informers feed an index, a change of it enqueues reconciles and plans, pure functions decide, and one writer
//! carries out their operations.

pub mod capacity;
#[cfg(test)]
mod fixture;
pub mod gc;
pub mod informer;
pub mod lease;
pub mod metrics;
pub mod provision;
pub mod reconcile;
pub mod run;
pub mod settings;
pub mod state;
pub mod write;
