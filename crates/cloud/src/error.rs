//! One error for every call, sorted by what the caller can do about it.

use thiserror::Error;

/// Why a call failed. `code` is EC2's own code, empty when no answer came.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{call} failed: {}{message}", if code.is_empty() { String::new() } else { format!("{code}: ") })]
pub struct CloudError {
    /// The API call, such as `CreateFleet`.
    pub call: &'static str,
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// The service's error code, empty for transport failures.
    pub code: String,
    /// The service's message.
    pub message: String,
}

/// What a caller can do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The thing does not exist (any more).
    NotFound,
    /// A thing of that name exists already.
    AlreadyExists,
    /// Out of stock, or a quota that acts like it: try another offering.
    InsufficientCapacity,
    /// Too many calls: try again later.
    Throttled,
    /// Not allowed: a person must act.
    Unauthorized,
    /// The same client token came with other parameters: take a new token.
    IdempotencyMismatch,
    /// The request is wrong: trying again does not help.
    Invalid,
    /// The service failed (5xx); the call may or may not have happened.
    Server,
    /// No answer came; the call may or may not have happened.
    Transport,
}

impl CloudError {
    /// Whether the call may have had its effect although no good answer came.
    #[must_use]
    pub fn outcome_unknown(&self) -> bool {
        matches!(self.kind, ErrorKind::Server | ErrorKind::Transport)
    }
}
