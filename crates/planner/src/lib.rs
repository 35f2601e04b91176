//! What we decide: a [`Snapshot`] goes in, a [`Plan`] with a reason for every answer comes out.
//!
//! The crate is pure on purpose. It has no clock, no randomness, no I/O and, but for one room that says why
//! (`provision/blueprint`), no float: the same snapshot gives the same bytes, so that a decision seen in production can be
//! replayed at a desk.
#![deny(clippy::float_arithmetic)]

pub mod check;
mod disrupt;
pub mod model;
mod packing;
mod payback;
pub mod plan;
mod plan_cache;
mod provision;
mod rotation;
mod utilization_limit;
mod validation;

pub use check::{Finding, ValidatedPlan, carried_out, check, checked, resized};
pub use disrupt::balances;
pub use model::*;
pub use packing::fitting;
pub use plan::*;
pub use plan_cache::PlanCache;
pub use validation::{RejectedCommand, ValidatedCommands, Validation};

/// Decides everything that one snapshot calls for: where pending pods go, what to launch, what to remove.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let mut plan = provision::provision(snapshot);
    disrupt::disrupt(snapshot, &mut plan);
    plan
}
