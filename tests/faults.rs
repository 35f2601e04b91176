//! Invalid input and faults:
//! - EC2 refuses, fails or does not respond;
//! - selectors of an EC2NodeClass match nothing, and pods fit on no instance type;
//! - the controller dies at the worst moment, or agents die in the middle of a drain;
//! - objects lose their owners;
//! - pods have constraints that are hard to satisfy.
//!
//! In each test the real controller runs with the chart's RBAC against a real API server and the wire protocol of EC2. The
//! controller must report the reason, never launch twice, and lose nothing. The controller must send no forbidden request and
//! not affect any other object.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

#[path = "faults/batch.rs"]
mod batch;
#[path = "faults/capacity.rs"]
mod capacity;
#[path = "faults/classes.rs"]
mod classes;
#[path = "faults/consolidation.rs"]
mod consolidation;
#[path = "faults/decision_log.rs"]
mod decision_log;
#[path = "faults/drains.rs"]
mod drains;
#[path = "faults/fixture.rs"]
mod fixture;
#[path = "faults/launches.rs"]
mod launches;
#[path = "faults/leftovers.rs"]
mod leftovers;
#[path = "faults/moves.rs"]
mod moves;
#[path = "faults/packing.rs"]
mod packing;
#[path = "faults/placement.rs"]
mod placement;
#[path = "faults/queue.rs"]
mod queue;
#[path = "faults/rights.rs"]
mod rights;
#[path = "faults/scrape.rs"]
mod scrape;
#[path = "faults/stock_policies.rs"]
mod stock_policies;
#[path = "faults/surge.rs"]
mod surge;
