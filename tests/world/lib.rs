//! The world that Kerf's tests and demo run in: a real control plane, an EC2 that answers on the wire, instance metadata,
//! and machines that boot real agents. Everything listens on loopback and ends with the process that started it.

pub mod ccm;
pub mod controller;
pub mod controlplane;
pub mod ec2wire;
pub mod eks;
pub mod helm;
pub mod imds;
pub mod judges;
pub mod kubeconfig;
pub mod kubelet;
pub mod load;
pub mod machines;
pub mod measure;
pub mod network;
pub mod observer;
pub mod pki;
pub mod process;
pub mod stage;

mod apply;
mod eventually;

pub use apply::apply;
pub use eventually::eventually;
