//! Comparison of the planner with its peers: Karpenter's own scheduler, kube-scheduler as an oracle, and a lower bound for the
//! price.

pub mod bound;
pub mod clusters;
pub mod compare;
pub mod consolidation;
pub mod curve;
pub mod daily;
pub mod disruption;
pub mod fixture;
pub mod growth;
pub mod karpenter;
pub mod limited;
pub mod memory;
pub mod oracle;
pub mod price;
pub mod report;
pub mod run;
pub mod traces;
pub mod workloads;
