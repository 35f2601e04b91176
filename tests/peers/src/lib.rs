//! The planner beside its peers: Karpenter's own scheduler, kube-scheduler as referee, and a lower bound on the price.

pub mod clusters;
pub mod referee;
