//! Why the command ends without an answer, and with which exit code.

use std::error::Error;

use crate::input::InputErrors;

/// Exit code: every pod that is not ignored has a place.
pub const PLACED: u8 = 0;
/// Exit code: input or arguments cannot be read.
pub const UNREADABLE: u8 = 2;
/// Exit code: some pod has no place.
pub const UNPLACED: u8 = 3;
/// Exit code: the answer would be wrong, which is a fault of the program.
pub const INTERNAL: u8 = 70;
/// Exit code: something outside did not answer, such as AWS's price list.
pub const UNAVAILABLE: u8 = 69;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// Arguments, or files that they name, that cannot be used; the sentence holds the cure.
    #[must_use]
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: UNREADABLE }
    }

    /// An object that cannot be used.
    #[must_use]
    pub fn input(error: impl Error) -> Self {
        Self::usage(told(&error))
    }

    /// Something outside that did not answer; the sentence holds the cure.
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: UNAVAILABLE }
    }

    /// A fault of the program.
    #[must_use]
    pub fn internal(error: impl Error) -> Self {
        Self::fault(told(&error))
    }

    /// A fault of the program, reported.
    #[must_use]
    pub fn fault(message: impl Into<String>) -> Self {
        Self {
            message: format!("internal error: {}; please report this with the input", message.into()),
            code: INTERNAL,
        }
    }

    /// The exit code.
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

/// An error with its causes, as one sentence.
pub(crate) fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
