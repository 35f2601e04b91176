//! Common parts of all daemons of Kerf: log, shutdown, delays, changes, probes and metrics. Independent of Kubernetes and AWS, so that
//! the agent remains as small as possible.

pub mod admin;
pub mod backoff;
pub mod changes;
pub mod error;
pub mod flag;
pub mod log;
pub mod metric;
pub mod signal;
