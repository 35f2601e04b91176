//! Phases of a plan, as functions over the parts of the solver.

pub(super) mod bind;
pub(super) mod current_domains;
pub(super) mod even_hosts;
pub(super) mod fill_existing;
pub(super) mod finish;
pub(super) mod host_minimum;
pub(super) mod join;
pub(super) mod open_node;
pub(super) mod pin_zone;
pub(super) mod queue;
pub(super) mod rehearsal;
pub(super) mod static_pools;
