//! All integration tests of this crate as one program: linking one takes as long as compiling its tests.

#[path = "../../../tests/scenarios/applied.rs"]
mod applied;
#[path = "plans/canonical.rs"]
mod canonical;
#[path = "plans/clusters.rs"]
mod clusters;
mod even_hosts;
mod inventory;
mod packing;
mod plans;
mod properties;
mod requirements;
mod rotation;
mod until_rest;
