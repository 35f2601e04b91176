//! Measurement of cgroups and `/proc` by the agent: artificial trees of every layout, the kernel's own on this machine,
//! garbage, and the resulting report.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "usage/cost.rs"]
mod cost;
#[path = "usage/history.rs"]
mod history;
#[path = "usage/kernel.rs"]
mod kernel;
#[path = "usage/reporting.rs"]
mod reporting;
#[path = "usage/sampling.rs"]
mod sampling;
#[path = "usage/tree.rs"]
mod tree;
