//! The whole controller in one process, in a cluster that is a model: an API server in memory, kubelets, kube-scheduler and the owners of
//! pods, before a fake of EC2. A life of the controller can end between any two of its writes and be followed by another one, and the
//! clock is a test's own: a day may pass in seconds.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

pub mod api_server;
pub mod chance;
pub mod classes;
pub mod clock;
pub mod death;
pub mod life;
pub mod surroundings;
pub mod town;
pub mod way;
