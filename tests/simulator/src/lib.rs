//! The whole controller in one process, in a simulated cluster. An API server in memory, kubelets, kube-scheduler and the
//! owners of pods are models, and EC2 is a fake. A run of the controller can end between any two of its writes, and another run
//! can follow. Each test has its own clock: a day can pass in seconds.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

pub mod api_server;
pub mod chance;
pub mod classes;
pub mod clock;
pub mod cluster;
pub mod controller_run;
pub mod crash;
pub mod hostile_node;
pub mod kinds;
mod leases;
pub mod middleware;
pub mod objects;
pub mod surroundings;
pub mod watches;
