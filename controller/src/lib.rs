//! Controller of Kerf. Informers update an index, changes of the index enqueue reconciles and plans, pure functions decide, and
//! one writer runs their operations.

pub mod capacity;
#[cfg(test)]
mod fixture;
pub mod gc;
pub mod informer;
pub mod lease;
pub mod metrics;
pub mod provision;
pub mod reconcile;
#[cfg(feature = "aws")]
pub mod run;
pub mod settings;
pub mod state;
pub mod write;
