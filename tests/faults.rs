//! Bad input and bad luck: EC2 refuses, breaks or answers nobody; classes select nothing; pods fit nowhere; the controller
//! dies at the worst moment; agents die in the middle of a drain; things lose their owners; and wishes that are hard to
//! grant. Each time the real controller works on a real API server, with the rights of its chart, and on EC2's wire: it must say why,
//! launch nothing twice, lose nothing, ask for nothing that it may not have, and leave everything else alone.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

#[path = "faults/capacity.rs"]
mod capacity;
#[path = "faults/classes.rs"]
mod classes;
#[path = "faults/consolidation.rs"]
mod consolidation;
#[path = "faults/drains.rs"]
mod drains;
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
#[path = "faults/scene.rs"]
mod scene;
#[path = "faults/surge.rs"]
mod surge;
