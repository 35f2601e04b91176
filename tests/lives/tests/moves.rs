//! Nodes that are replaced, merged, given back and deleted, by the whole controller on a clock of its own. It is killed at each of its
//! writes in turn, once before that is taken and once when it was and nobody hears so; whoever follows finds only what the cluster shows.
//! Each time the same has to come about, and at every moment budgets hold and nobody leaves before a place is there.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "moves/budgets.rs"]
mod budgets;
#[path = "moves/deaths.rs"]
mod deaths;
#[path = "moves/interruptions.rs"]
mod interruptions;
#[path = "moves/judge.rs"]
mod judge;
#[path = "moves/objections.rs"]
mod objections;
#[path = "moves/repair.rs"]
mod repair;
#[path = "moves/stories.rs"]
mod stories;
#[path = "moves/volumes.rs"]
mod volumes;
#[path = "moves/waits.rs"]
mod waits;
