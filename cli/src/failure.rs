//! Errors that end the command, with their exit codes.

use std::error::Error;

use crate::input::InputErrors;

/// Exit code: every pod that is not ignored has a place.
pub const PLACED: u8 = 0;
/// Exit code: input or arguments cannot be read.
pub const UNREADABLE: u8 = 2;
/// Exit code: at least one pod is unschedulable.
pub const UNPLACED: u8 = 3;
/// Exit code: the result would be wrong because of a bug.
pub const INTERNAL: u8 = 70;
/// Exit code: an external service did not respond, such as AWS's price list.
pub const UNAVAILABLE: u8 = 69;

/// Error that ends the command.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// Returns an error for invalid arguments, or for invalid files that they name; the message contains the fix.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: UNREADABLE }
    }

    /// Returns an error for an object that cannot be used.
    #[must_use]
    pub fn input(error: impl Error) -> Self {
        Self::usage(chain(&error))
    }

    /// Returns an error for an external service that did not respond; the message contains the fix.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: UNAVAILABLE }
    }

    /// Returns an error for a bug in Kerf.
    #[must_use]
    pub fn internal(error: impl Error) -> Self {
        Self::fault(chain(&error))
    }

    /// Returns an error for a bug in Kerf, with a request to report it.
    #[must_use]
    pub fn fault(message: impl Into<String>) -> Self {
        Self {
            message: format!("internal error: {}; please report this with the input", message.into()),
            code: INTERNAL,
        }
    }

    /// Returns the exit code.
    #[must_use]
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl From<InputErrors> for Failure {
    fn from(errors: InputErrors) -> Self {
        Self::usage(errors.to_string())
    }
}

/// Returns an error with its causes, as one sentence.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
