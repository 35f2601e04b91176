//! The error of all calls, classified by the caller's options.

use thiserror::Error;

/// The reason why a call failed. `code` is EC2's own code, empty if no answer arrived.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{call} failed: {}{message}", if code.is_empty() { String::new() } else { format!("{code}: ") })]
pub struct CloudError {
    /// The API call, such as `CreateFleet`.
    pub call: &'static str,
    /// Kind of the failure.
    pub kind: ErrorKind,
    /// The service's error code, empty for transport failures.
    pub code: String,
    /// The service's message.
    pub message: String,
}

/// Kind of a failure, by the caller's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The resource does not exist (any more).
    NotFound,
    /// A resource with this name exists already.
    AlreadyExists,
    /// Insufficient capacity, or an exceeded quota with the same effect: try another offering.
    InsufficientCapacity,
    /// Too many calls: retry later.
    Throttled,
    /// Missing permission: an administrator must act.
    Unauthorized,
    /// The client token was used before with other parameters: use a new token.
    IdempotencyMismatch,
    /// Invalid request: a retry does not help.
    Invalid,
    /// The service failed (5xx). The call may have had its effect.
    Server,
    /// No answer arrived. The call may have had its effect.
    Transport,
}

impl CloudError {
    /// Reports whether the call may have had its effect although it failed.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        matches!(self.kind, ErrorKind::Server | ErrorKind::Transport)
    }
}
