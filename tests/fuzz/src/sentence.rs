//! Messages for users. A message appears in systemd's status, a condition and an event, so it must be one line of limited
//! length.

use std::error::Error;

use crate::ParseResult;

/// Longest message in characters. A Kubernetes event takes 1024 characters, including text around the message.
const LONGEST: usize = 900;

/// Returns the result for an error, and checks its message.
pub(crate) fn refused(error: &(dyn Error + 'static)) -> ParseResult {
    refused_with(daemon::error::chain(error))
}

/// Returns the result for an error message, and checks the message.
pub(crate) fn refused_with(message: String) -> ParseResult {
    hold(&message);
    ParseResult::Refused(message)
}

/// Asserts that a message is one line of limited length.
pub(crate) fn hold(message: &str) {
    assert!(!message.is_empty(), "something is to be said");
    assert!(!message.contains(char::is_control), "one line: {message:?}");
    assert!(message.chars().count() <= LONGEST, "{} characters: {message}", message.chars().count());
}
