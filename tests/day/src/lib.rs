//! Simulated day: a cluster, EC2, agents and faults on one clock around the shipped snapshot builder, planner and drain.
//!
//! All of it depends only on a seed, so every run finds the same breaches. Models replace kube-scheduler, kubelet and the
//! controllers of Kubernetes (`world`), EC2 (`market`, `machines`), and the steps by which Kerf's controller carries out plans
//! (`controller`). The simulated steps mirror `docs/architecture.md`. The shipped ones link the EC2 SDK and are tested by the
//! soak.

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
