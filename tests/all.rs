//! Tests of the whole system as one program. Linking a program takes as long as compiling its tests.

mod agent_with_karpenter;
mod boards;
mod chart;
mod cli_on_cluster;
mod conformance;
mod contract;
mod controller_account;
mod crds;
mod crowd;
mod faults;
mod installation;
mod kwok;
mod monitoring;
mod node;
mod node_identity;
mod node_simulator;
mod node_usage;
mod observe;
mod pace;
mod switch;
mod testbed;
mod tidy;
mod tokens;
