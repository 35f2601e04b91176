//! What every daemon of ours needs and nothing else: one way to log, to stop, to answer probes and to
//! count. It knows neither Kubernetes nor AWS, so that the agent stays as small as it can be.

pub mod admin;
pub mod error;
pub mod log;
pub mod metric;
pub mod signal;
