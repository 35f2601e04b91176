//! How Kerf acts on the cluster: watches feed an index, a change calls for looks and plans, pure functions
//! decide, and one writer carries out what they decided.

pub mod act;
pub mod batch;
pub mod buffer;
pub mod claims;
pub mod class;
pub mod cluster;
pub mod drift;
pub mod eks;
pub mod event;
#[cfg(test)]
mod fixture;
pub mod fleet;
pub mod garbage;
pub mod hashes;
pub mod health;
pub mod index;
pub mod interruption;
pub mod launch;
pub mod lease;
pub mod lifecycle;
pub mod market;
pub mod memory;
pub mod metrics;
pub mod moves;
pub mod nominations;
pub mod overlay;
pub mod pace;
pub mod patch;
pub mod pool;
pub mod profiles;
pub mod provision;
pub mod queue;
pub mod reconcile;
pub mod reexport;
pub mod reserved;
pub mod resizes;
pub mod run;
pub mod settings;
pub mod tagging;
pub mod tally;
pub mod termination;
pub mod told;
pub mod usage;
pub mod verdicts;
pub mod watch;
pub mod work;
