//! The planner beside its peers: Karpenter's own scheduler, kube-scheduler as referee, and a lower bound on the price.

pub mod bound;
pub mod clusters;
pub mod compare;
pub mod consolidation;
pub mod curve;
pub mod daily;
pub mod disruption;
pub mod fixture;
pub mod karpenter;
pub mod memory;
pub mod price;
pub mod referee;
pub mod report;
pub mod run;
pub mod workloads;
