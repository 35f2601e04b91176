//! Planner: the input is a [`Snapshot`], the output a [`Plan`] with a reason for every decision.
//!
//! The crate is pure: it has no clock, no randomness and no I/O. Only `provision/fleet_optimizer`, which documents the reason,
//! uses floating-point numbers. The same snapshot results in the same bytes, so that a decision from production can be
//! reproduced offline.
#![deny(clippy::float_arithmetic)]

pub mod check;
mod disrupt;
pub mod model;
mod new_fleet;
mod packing;
mod payback;
pub mod plan;
mod plan_cache;
mod provision;
mod rotation;
mod utilization_limit;
mod validation;

pub use check::{Finding, ValidatedPlan, carried_out, check, checked, resized};
pub use disrupt::{allowed_by_canaries, balances};
pub use model::*;
pub use new_fleet::{FleetCost, new_fleet, without_nodes};
pub use packing::fitting;
pub use plan::*;
pub use plan_cache::PlanCache;
pub use provision::highest_cost;
pub use validation::{RejectedCommand, ValidatedCommands, Validation};

/// Returns the pending pods that kube-scheduler would bind now, with their nodes. For simulated clusters; no decision depends on it.
#[must_use]
pub fn bindings(snapshot: &Snapshot) -> Vec<Nomination> {
    provision::bindings(snapshot)
}

/// Places pending pods, on nodes or launches, without commands for nodes that exist. For simulated clusters, where pods arrive far more
/// often than nodes can be removed.
pub fn placement(snapshot: &Snapshot) -> Plan {
    provision::provision(snapshot)
}

/// Makes all decisions for one snapshot: places of pending pods, launches, and disruption commands.
pub fn plan(snapshot: &Snapshot) -> Plan {
    let mut plan = provision::provision(snapshot);
    disrupt::disrupt(snapshot, &mut plan);
    plan
}
