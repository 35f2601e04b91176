//! What may go wrong on the way to EC2 and back, and for which call it is ordered.

use std::time::Duration;

use http::StatusCode;

/// What goes wrong with one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection closes before the call happens.
    Drop,
    /// The call happens, then the connection closes without an answer.
    LoseReply,
    /// The call does not happen; EC2 answers with an error.
    Refuse {
        /// HTTP status.
        status: StatusCode,
        /// EC2's code.
        code: String,
        /// EC2's message.
        message: String,
    },
    /// The call does not happen; something between us and EC2 answers with a page that no client can read.
    Garble(StatusCode),
    /// The call happens after this time.
    Slow(Duration),
}

impl Fault {
    /// `RequestLimitExceeded` with status 503.
    #[must_use]
    pub fn throttled() -> Self {
        Self::refuse(StatusCode::SERVICE_UNAVAILABLE, "RequestLimitExceeded", "Request limit exceeded.")
    }

    /// `InternalError` with status 500.
    #[must_use]
    pub fn internal_error() -> Self {
        Self::refuse(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "An internal error has occurred")
    }

    /// `UnauthorizedOperation` with status 403.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::refuse(
            StatusCode::FORBIDDEN,
            "UnauthorizedOperation",
            "You are not authorized to perform this operation.",
        )
    }

    /// `AccessDenied` with status 403, as services with JSON say it.
    #[must_use]
    pub fn access_denied() -> Self {
        Self::refuse(StatusCode::FORBIDDEN, "AccessDenied", "Access to the resource is denied.")
    }

    fn refuse(status: StatusCode, code: &str, message: &str) -> Self {
        Self::Refuse { status, code: code.to_owned(), message: message.to_owned() }
    }
}

/// Faults that wait for their call.
#[derive(Debug, Default)]
pub(super) struct Script(Vec<Ordered>);

#[derive(Debug)]
struct Ordered {
    action: String,
    /// How many calls until it strikes; 1 is the next.
    left: u64,
    fault: Fault,
}

impl Script {
    pub(super) fn order(&mut self, action: &str, nth: u64, fault: Fault) {
        self.0.push(Ordered { action: action.to_owned(), left: nth.max(1), fault });
    }

    /// Counts one call of `action` and gives the fault whose turn it is; of several, the one ordered first.
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
