//! Protocol of drain requests and their acknowledgement. An annotation on the Node holds the request. The condition
//! `kerf.sh/Drained` holds the requests that the agent of the node follows, and its progress. Controller and agent communicate
//! about drains only through the types in this file.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Maximum length of an id, in bytes.
const LONGEST: usize = 128;

/// Value of [`crate::annotation::DRAIN`]: a request to drain this node. Removal of the annotation withdraws the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainRequest {
    /// Identity of the request: letters, digits and `-_.:`. Another id is another request.
    pub id: String,
    /// Reason as text, for events.
    #[serde(default)]
    pub reason: String,
    /// Time at which the instance may be terminated. Without a deadline no pod is deleted by force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// True if pods of DaemonSets are drained too. Valid only with a taint that keeps these pods from coming back.
    #[serde(default)]
    pub daemon_sets: bool,
    /// True if the deadline is that of Karpenter's `terminationGracePeriod`. Then Karpenter's rules replace the agent's own.
    /// Pods may use all of the time, and a do-not-disrupt pod keeps running until its own grace period before the deadline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub termination: bool,
    /// Time of the request. The requester may drain the node itself if the agent does not acknowledge in time.
    #[serde(default, rename = "asked", skip_serializing_if = "Option::is_none")]
    pub requested_at: Option<Timestamp>,
}

/// Error for an invalid drain request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// Annotation that does not parse.
    #[error(
        "invalid drain request in annotation kerf.sh/drain: write JSON such as {{\"id\":\"1\",\"reason\":\"repair\"}}"
    )]
    Json(#[source] serde_json::Error),
    /// Id of the wrong length or with a character that is not allowed.
    #[error("invalid id {0:?} in annotation kerf.sh/drain: write 1 to 128 letters, digits and -_.:")]
    Id(String),
}

impl DrainRequest {
    /// Parses the annotation.
    ///
    /// # Errors
    /// Returns [`InvalidRequest`], whose message describes a valid request.
    pub fn parse(text: &str) -> Result<Self, InvalidRequest> {
        let request: Self = serde_json::from_slice(text.as_bytes()).map_err(InvalidRequest::Json)?;
        let fits = (1..=LONGEST).contains(&request.id.len());
        let plain = request.id.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:".contains(c));
        if fits && plain { Ok(request) } else { Err(InvalidRequest::Id(request.id)) }
    }
}

impl fmt::Display for DrainRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        json(self, f)
    }
}

/// Value of [`crate::annotation::DRAIN_TAKEN_OVER`]: the mark of a drain that the controller carries out itself. The controller
/// renews the mark while it evicts pods. An agent that sees the same mark for a minute removes it and continues the drain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainTaken {
    /// Id of the drain, as in [`DrainRequest::id`].
    pub id: String,
    /// Reason as text why the agent does not carry out the drain.
    #[serde(default)]
    pub reason: String,
    /// Time of the mark, by the controller's clock.
    pub at: Timestamp,
}

impl DrainTaken {
    /// Parses the annotation. Returns `None` if it has another format.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl fmt::Display for DrainTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        json(self, f)
    }
}

fn json(value: &impl Serialize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(&serde_json::to_string(value).map_err(|_| fmt::Error)?)
}

/// Beginning of the message of [`crate::condition::NODE_DRAINED`], before the first `;`, as pairs of the form `key=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainProgress {
    /// Ids of the requests that the drain follows.
    pub ids: Vec<String>,
    /// Number of pods whose eviction was accepted.
    pub evicted: usize,
    /// Number of pods that were deleted regardless of their PodDisruptionBudget.
    pub forced: usize,
    /// Number of pods that are still to be evicted.
    pub left: usize,
}

impl DrainProgress {
    /// Parses a message. Missing values are empty or zero.
    #[must_use]
    pub fn parse(message: &str) -> Self {
        let mut progress = Self::default();
        let words = message.split(';').next().unwrap_or_default().split_whitespace();
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            match key {
                "for" => progress.ids = value.split(',').map(str::to_owned).collect(),
                "evicted" => progress.evicted = value.parse().unwrap_or_default(),
                "forced" => progress.forced = value.parse().unwrap_or_default(),
                "left" => progress.left = value.parse().unwrap_or_default(),
                _ => {}
            }
        }
        progress
    }
}

impl fmt::Display for DrainProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ids, evicted, forced, left } = self;
        write!(f, "for={} evicted={evicted} forced={forced} left={left}", ids.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_request_parses_its_own_text() {
        let request = DrainRequest {
            id: "termination-1".into(),
            reason: "Drifted".into(),
            deadline: Some(Timestamp::UNIX_EPOCH),
            daemon_sets: true,
            termination: true,
            requested_at: None,
        };
        let text = request.to_string();
        let expected = concat!(
            r#"{"id":"termination-1","reason":"Drifted","deadline":"1970-01-01T00:00:00Z","#,
            r#""daemonSets":true,"termination":true}"#
        );
        assert_eq!(text, expected);
        assert_eq!(DrainRequest::parse(&text).ok(), Some(request));
    }

    #[test]
    fn drain_taken_parses_only_its_own_text() {
        let taken = DrainTaken { id: "t-1".into(), reason: "silent".into(), at: Timestamp::UNIX_EPOCH };
        let text = taken.to_string();
        assert_eq!(text, r#"{"id":"t-1","reason":"silent","at":"1970-01-01T00:00:00Z"}"#);
        assert_eq!(DrainTaken::parse(&text), Some(taken));
        assert_eq!(["", "yes", r#"{"id":"t-1"}"#].map(DrainTaken::parse), [None, None, None]);
    }

    #[test]
    fn drain_request_parse_refuses_invalid_json_and_ids() {
        let rows = [
            (r#"{"id":"1"}"#, ""),
            (r#"{"id":"1","deadline":"2026-01-01T00:00:00Z","newer":1}"#, ""),
            ("now", "invalid drain request"),
            (r#"{"reason":"repair"}"#, "invalid drain request"),
            (r#"{"id":"1","deadline":"soon"}"#, "invalid drain request"),
            (r#"{"id":""}"#, "invalid id"),
            (r#"{"id":"a,b"}"#, "invalid id"),
        ];
        for (text, problem) in rows {
            let read = DrainRequest::parse(text);
            let message = read.err().map_or_else(String::new, |error| error.to_string());
            assert!(message.contains(problem) && message.is_empty() == problem.is_empty(), "{text}: {message}");
        }
    }

    #[test]
    fn drain_progress_parse_stops_at_the_first_semicolon() {
        let progress = DrainProgress { ids: vec!["a".into(), "b".into()], evicted: 3, forced: 1, left: 2 };
        assert_eq!(
            DrainProgress::parse(&format!("{progress}; blocked by PodDisruptionBudget x=y evicted=9")),
            progress
        );
        assert_eq!(DrainProgress::parse("nothing of the kind"), DrainProgress::default());
    }
}
