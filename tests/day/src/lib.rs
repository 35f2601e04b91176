//! A simulated day: a cluster, EC2, agents and faults on one clock around the shipped translator, planner and drain.
//!
//! Everything depends on a seed and nothing else, so a breach that one run finds is found by every run. What is a model here:
//! kube-scheduler, kubelet and the controllers of Kubernetes (`world`), EC2 (`market`, `machines`), and the steps by which Kerf's controller
//! carries plans out (`controller`), which mirror `docs/architecture.md`; the shipped ones link the EC2 SDK and are tried by the soak.

pub mod app;
pub mod audit;
pub mod budget;
pub mod clock;
pub mod controller;
pub mod dice;
pub mod draining;
pub mod faults;
pub mod machines;
pub mod market;
pub mod picture;
pub mod record;
mod reports;
pub mod setup;
pub mod simulation;
pub mod trace;
pub mod verdict;
pub mod world;
