//! What is told to people: it goes into systemd's status, a condition and an event, each of them one line with an end.

use std::error::Error;

use crate::Verdict;

/// A Kubernetes event takes 1024 characters, and has words of its own around these.
const LONGEST: usize = 900;

/// The verdict of a refusal, whose words fit where they are read.
pub(crate) fn refused(error: &(dyn Error + 'static)) -> Verdict {
    refused_with(daemon::error::chain(error))
}

/// The same of words that a reader has already.
pub(crate) fn refused_with(said: String) -> Verdict {
    hold(&said);
    Verdict::Refused(said)
}

/// Holds that these words are one line of a bearable length.
pub(crate) fn hold(said: &str) {
    assert!(!said.is_empty(), "something is to be said");
    assert!(!said.contains(char::is_control), "one line: {said:?}");
    assert!(said.chars().count() <= LONGEST, "{} characters: {said}", said.chars().count());
}
