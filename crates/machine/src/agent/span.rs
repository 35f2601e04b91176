//! Durations in settings, in Kubernetes' format.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A duration such as `30s` or `1m30s`; never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Duration);

impl Span {
    /// Creates a duration of whole seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let nanos = api::duration::nanos(&text).ok().and_then(|nanos| u64::try_from(nanos).ok());
        let span = nanos.map(|nanos| Self(Duration::from_nanos(nanos)));
        span.ok_or_else(|| format!("{text:?} is not a duration; write one such as 500ms, 30s or 1m30s"))
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.subsec_millis());
        match millis {
            0 => write!(out, "{seconds}s"),
            _ => write!(out, "{}ms", self.0.as_millis()),
        }
    }
}
