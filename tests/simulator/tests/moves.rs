//! Nodes that are replaced, merged, removed and deleted by the whole controller on a simulated clock. The tests kill the
//! controller at each of its writes: once before the write is performed, and once after it without a response. The next run has
//! only the state of the cluster. Each time the result must be the same. At every moment budgets must hold, and no pod may be
//! evicted before it has capacity elsewhere.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "moves/budgets.rs"]
mod budgets;
#[path = "moves/check.rs"]
mod check;
#[path = "moves/crashes.rs"]
mod crashes;
#[path = "moves/drift_canary.rs"]
mod drift_canary;
#[path = "moves/failures.rs"]
mod failures;
#[path = "moves/false_labels.rs"]
mod false_labels;
#[path = "moves/interruptions.rs"]
mod interruptions;
#[path = "moves/late_adoption.rs"]
mod late_adoption;
#[path = "moves/lost_nodeclaims.rs"]
mod lost_nodeclaims;
#[path = "moves/objections.rs"]
mod objections;
#[path = "moves/reboots.rs"]
mod reboots;
#[path = "moves/repair.rs"]
mod repair;
#[path = "moves/reservations.rs"]
mod reservations;
#[path = "moves/scenarios.rs"]
mod scenarios;
#[path = "moves/stale_view.rs"]
mod stale_view;
#[path = "moves/startup_taints.rs"]
mod startup_taints;
#[path = "moves/volumes.rs"]
mod volumes;
#[path = "moves/waits.rs"]
mod waits;
