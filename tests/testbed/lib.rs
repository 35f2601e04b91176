//! Test infrastructure of Kerf's tests and demo: a real control plane, a fake EC2 with an HTTP server, fake instance metadata,
//! and machines that boot real agents. All servers listen on loopback and end with the process that started them.

pub mod ccm;
pub mod conformance;
pub mod controller;
pub mod controller_pods;
pub mod controlplane;
pub mod ec2wire;
pub mod eks;
pub mod environment;
pub mod helm;
pub mod imds;
pub mod installation;
pub mod karpenter;
pub mod kubeconfig;
pub mod kubelet;
pub mod kueue;
pub mod kwok;
pub mod linters;
pub mod load;
pub mod machines;
pub mod measure;
pub mod network;
pub mod observer;
pub mod observing_controller;
pub mod pki;
pub mod pod_network;
pub mod process;

mod apply;
mod eventually;

pub use apply::{apply, apply_example};
pub use eventually::eventually;
