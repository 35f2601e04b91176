//! Simulated day: the shipped controller in the cluster of `lives`, with a day of workloads, EC2's prices and faults on one clock.
//! Two replicas may elect a leader, with wall clocks of their own.
//!
//! The controller, its planner and its drain are the shipped ones. Kubelets, kube-scheduler and the owners of pods are the models
//! of `lives`, and EC2 is its fake. This crate has the events of the day, the usage reports of agents, the checks after every
//! change, and the record. Karpenter's rules for disruption (`replay::KarpenterRules`) can replace Kerf's plans; everything else stays the same.

pub mod app;
pub mod audit;
pub mod budget;
pub mod chart;
pub mod clock;
pub mod cluster_state;
mod commands;
pub mod dice;
mod false_nodes;
pub mod faults;
pub mod idle;
pub mod market;
pub mod picture;
pub mod record;
pub mod recorder;
mod reports;
pub mod setup;
pub mod simulation;
mod source;
pub mod spending;
pub mod stage;
pub mod trace;
pub mod verdict;
