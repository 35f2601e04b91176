//! Replay of a recorded cluster, perhaps with other settings. Pure: the simulated time is part of the state, and the same recording
//! and settings give the same result.
//!
//! [`History`] keeps what the cluster had to do: the pods that its workloads wanted and for how long, nodes of other programs,
//! NodePools, DaemonSets and budgets over time. It also keeps what happened: nodes with their times, evictions, and how long pods
//! waited. [`Replay`] does the same work again with the planner. Models replace the rest of the cluster: kube-scheduler
//! ([`planner::bindings`]), kubelet and EC2 ([`Pace`] has their times, from the recording), owners of pods (`workload`) and drains
//! (`drain`). [`Figures`] has cost, nodes, evictions and waits, for the recording and for the replay.

mod cluster;
mod cost_shares;
mod drain;
mod event_queue;
mod figures;
mod history;
mod karpenter;
mod machine;
mod pace;
mod passes;
mod simulation;
mod workload;

pub use cost_shares::{CostShare, cost_shares};
pub use figures::{Figures, Market, Point};
pub use history::{Change, History, HistoryBuilder, RecordedNode, RecordedPod};
pub use karpenter::KarpenterRules;
pub use pace::Pace;
pub use simulation::{Replay, Rules};
