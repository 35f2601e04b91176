//! Faults of the connection to EC2, and their schedule by call.

use std::time::Duration;

use http::StatusCode;

/// Fault of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Connection that closes before the call happens.
    Drop,
    /// Connection that closes without a response after the call happened.
    LoseReply,
    /// EC2 error; the call does not happen.
    Refuse {
        /// HTTP status.
        status: StatusCode,
        /// EC2's error code.
        code: String,
        /// EC2's message.
        message: String,
    },
    /// Unreadable page of a proxy between client and EC2; the call does not happen.
    Garble(StatusCode),
    /// Delay of the call.
    Slow(Duration),
}

impl Fault {
    /// Returns `RequestLimitExceeded` with status 503.
    #[must_use]
    pub fn throttled() -> Self {
        Self::refuse(StatusCode::SERVICE_UNAVAILABLE, "RequestLimitExceeded", "Request limit exceeded.")
    }

    /// Returns `InternalError` with status 500.
    #[must_use]
    pub fn internal_error() -> Self {
        Self::refuse(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "An internal error has occurred")
    }

    /// Returns `UnauthorizedOperation` with status 403.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::refuse(
            StatusCode::FORBIDDEN,
            "UnauthorizedOperation",
            "You are not authorized to perform this operation.",
        )
    }

    /// Returns `AccessDenied` with status 403, in the form of services with a JSON protocol.
    #[must_use]
    pub fn access_denied() -> Self {
        Self::refuse(StatusCode::FORBIDDEN, "AccessDenied", "Access to the resource is denied.")
    }

    fn refuse(status: StatusCode, code: &str, message: &str) -> Self {
        Self::Refuse { status, code: code.to_owned(), message: message.to_owned() }
    }
}

/// Scheduled faults.
#[derive(Debug, Default)]
pub(super) struct Script(Vec<Ordered>);

#[derive(Debug)]
struct Ordered {
    action: String,
    /// Number of calls until the fault occurs; 1 is the next.
    left: u64,
    fault: Fault,
}

impl Script {
    pub(super) fn order(&mut self, action: &str, nth: u64, fault: Fault) {
        self.0.push(Ordered { action: action.to_owned(), left: nth.max(1), fault });
    }

    /// Counts one call of `action` and returns its fault, if one is due; of several, the one scheduled first.
    pub(super) fn strike(&mut self, action: &str) -> Option<Fault> {
        for ordered in self.0.iter_mut().filter(|ordered| ordered.action == action) {
            ordered.left = ordered.left.saturating_sub(1);
        }
        let due = self.0.iter().position(|ordered| ordered.action == action && ordered.left == 0)?;
        Some(self.0.remove(due).fault)
    }

    pub(super) fn waiting(&self) -> usize {
        self.0.len()
    }
}
