//! Requests to the Eviction API: the responses of the API server, and the time of the next attempt.

pub(crate) mod backoff;
pub(crate) mod budget;
pub(crate) mod reply;
