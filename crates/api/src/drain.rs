//! How a drain is asked for and acknowledged: an annotation on the Node says what is wanted, the condition `kerf.sh/Drained` says
//! whose requests the node's agent follows and how far it has come. Controller and agent read each other by this file alone.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The longest id.
const LONGEST: usize = 128;

/// The value of [`crate::annotation::DRAIN`]: somebody wants this node empty. Taking the annotation away withdraws the wish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainRequest {
    /// Names the wish: letters, digits and `-_.:`. Another id is another wish.
    pub id: String,
    /// Why, in words; for events.
    #[serde(default)]
    pub reason: String,
    /// When the machine may be gone; without one no pod is ever forced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    /// Pods of DaemonSets leave as well; right only behind a taint that keeps them away.
    #[serde(default)]
    pub daemon_sets: bool,
    /// The deadline is that of Karpenter's `terminationGracePeriod`, and its arithmetic holds in place of the machine's own rules: pods
    /// have all of the time, and who asks to be left alone stays until its own grace period before the end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub termination: bool,
    /// When the request was made: who makes it may act itself when it is not acknowledged in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<Timestamp>,
}

/// A request that cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// It does not parse.
    #[error(
        "invalid drain request in annotation kerf.sh/drain: write JSON such as {{\"id\":\"1\",\"reason\":\"repair\"}}"
    )]
    Json(#[source] serde_json::Error),
    /// Its id does not do.
    #[error("invalid id {0:?} in annotation kerf.sh/drain: write 1 to 128 letters, digits and -_.:")]
    Id(String),
}

impl DrainRequest {
    /// Reads the annotation.
    ///
    /// # Errors
    /// [`InvalidRequest`], which says what to write instead.
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

/// The value of [`crate::annotation::DRAIN_TAKEN_OVER`]: the controller's signature under a drain that it sees to itself. It signs anew
/// while it asks for pods; an agent that reads the same one for a minute takes it away and goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainTaken {
    /// The drain's, as in [`DrainRequest::id`].
    pub id: String,
    /// Why it is not the agent's, in words.
    #[serde(default)]
    pub reason: String,
    /// When it was signed, by the controller's clock.
    pub at: Timestamp,
}

impl DrainTaken {
    /// Reads the annotation; `None` where somebody else has written it.
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

/// The beginning of the message of [`crate::condition::NODE_DRAINED`], before the first `;`, in words of the form `key=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainSaid {
    /// Ids of the requests that the drain follows.
    pub ids: Vec<String>,
    /// Pods whose eviction was accepted.
    pub evicted: usize,
    /// Pods that were deleted whatever their budget said.
    pub forced: usize,
    /// Pods that still have to go.
    pub left: usize,
}

impl DrainSaid {
    /// Reads a message; what it does not say is empty or zero.
    #[must_use]
    pub fn parse(message: &str) -> Self {
        let mut said = Self::default();
        let words = message.split(';').next().unwrap_or_default().split_whitespace();
        for (key, value) in words.filter_map(|word| word.split_once('=')) {
            match key {
                "for" => said.ids = value.split(',').map(str::to_owned).collect(),
                "evicted" => said.evicted = value.parse().unwrap_or_default(),
                "forced" => said.forced = value.parse().unwrap_or_default(),
                "left" => said.left = value.parse().unwrap_or_default(),
                _ => {}
            }
        }
        said
    }
}

impl fmt::Display for DrainSaid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ids, evicted, forced, left } = self;
        write!(f, "for={} evicted={evicted} forced={forced} left={left}", ids.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_is_written() {
        let request = DrainRequest {
            id: "termination-1".into(),
            reason: "Drifted".into(),
            deadline: Some(Timestamp::UNIX_EPOCH),
            daemon_sets: true,
            termination: true,
            asked: None,
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
    fn a_signature_is_read_as_it_is_written_and_anything_else_is_none() {
        let taken = DrainTaken { id: "t-1".into(), reason: "silent".into(), at: Timestamp::UNIX_EPOCH };
        let text = taken.to_string();
        assert_eq!(text, r#"{"id":"t-1","reason":"silent","at":"1970-01-01T00:00:00Z"}"#);
        assert_eq!(DrainTaken::parse(&text), Some(taken));
        assert_eq!(["", "yes", r#"{"id":"t-1"}"#].map(DrainTaken::parse), [None, None, None]);
    }

    #[test]
    fn what_a_person_may_write() {
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
            let said = read.err().map_or_else(String::new, |error| error.to_string());
            assert!(said.contains(problem) && said.is_empty() == problem.is_empty(), "{text}: {said}");
        }
    }

    #[test]
    fn what_the_agent_says_is_read_up_to_the_sentence() {
        let said = DrainSaid { ids: vec!["a".into(), "b".into()], evicted: 3, forced: 1, left: 2 };
        assert_eq!(DrainSaid::parse(&format!("{said}; blocked by PodDisruptionBudget x=y evicted=9")), said);
        assert_eq!(DrainSaid::parse("nothing of the kind"), DrainSaid::default());
    }
}
