//! Responses of the API server to an eviction or a deletion, reduced to the cases that a drain distinguishes.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pod::PodOnNode;

/// Text before the name of a PodDisruptionBudget in the causes of a 429.
const BUDGET: &str = "The disruption budget ";

/// Response to one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// 200, 201 or 202: the pod now has a deletionTimestamp.
    Accepted,
    /// 404: the pod does not exist.
    Gone,
    /// 409: another pod of the same name, newer or older, exists; the requested pod does not.
    Recreated,
    /// 429: a budget allows no disruption, or the API server sheds load.
    Blocked {
        /// The server's `Retry-After`.
        retry_after: Option<Duration>,
        /// Name of the PodDisruptionBudget, if the server returns one.
        budget: Option<String>,
    },
    /// 500 because more than one PodDisruptionBudget selects the pod: no eviction will ever succeed.
    SeveralBudgets,
    /// Any other 5xx.
    ServerError,
    /// 403: the pod is no longer on this node, or the identity of the client has changed. A new list is needed.
    Forbidden,
    /// 400 or 422: the request itself is invalid.
    Invalid,
    /// No response: no connection, a timeout, an invalid body, or rejected credentials (401).
    Unreachable,
}

impl Reply {
    /// Converts an HTTP status code, the server's message (of the Status and its causes) and its `Retry-After` into a reply.
    #[must_use]
    pub fn from_status(status: u16, message: &str, retry_after: Option<Duration>) -> Self {
        match status {
            200..=299 => Self::Accepted,
            404 => Self::Gone,
            409 => Self::Recreated,
            429 => Self::Blocked { retry_after, budget: budget(message) },
            403 => Self::Forbidden,
            500 if message.contains("more than one PodDisruptionBudget") => Self::SeveralBudgets,
            500..=599 => Self::ServerError,
            400 | 422 => Self::Invalid,
            _ => Self::Unreachable,
        }
    }

    /// Returns why the pod still exists, or `None` for replies after which it is terminating or gone.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Accepted | Self::Gone | Self::Recreated => None,
            Self::Blocked { budget: None, .. } => Some(Refusal::Busy),
            Self::Blocked { .. } => Some(Refusal::Budget),
            Self::SeveralBudgets => Some(Refusal::SeveralBudgets),
            Self::ServerError => Some(Refusal::ServerError),
            Self::Forbidden => Some(Refusal::Forbidden),
            Self::Invalid => Some(Refusal::Invalid),
            Self::Unreachable => Some(Refusal::Unreachable),
        }
    }
}

/// Returns the budget in the message of a 429: `The disruption budget NAME needs 3 healthy pods and has 3 currently`.
fn budget(message: &str) -> Option<String> {
    let (_, rest) = message.split_once(BUDGET)?;
    let name = rest.split_whitespace().next()?;
    Some(name.to_owned())
}

/// Reason why the last request for a pod failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Refusal {
    /// A PodDisruptionBudget allows no disruption.
    Budget,
    /// The server requests a later retry, without the name of a budget.
    Busy,
    /// Several PodDisruptionBudgets select the pod.
    SeveralBudgets,
    /// The server failed.
    ServerError,
    /// The server forbids the request.
    Forbidden,
    /// The server rejects the request as invalid.
    Invalid,
    /// The server did not respond.
    Unreachable,
}

/// A pod whose last request failed.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    /// The pod.
    pub pod: &'a PodOnNode,
    /// Reason of the failure.
    pub why: Refusal,
    /// Budget that the server returned, as `namespace/name`.
    pub budget: Option<&'a str>,
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pod, why, budget } = self;
        write!(f, "{}/{}: {why}", pod.namespace, pod.name)?;
        budget.map_or(Ok(()), |budget| write!(f, " ({budget})"))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Budget => "PodDisruptionBudget allows no disruption",
            Self::Busy => "the API server returned 429",
            Self::SeveralBudgets => "several PodDisruptionBudgets select the pod",
            Self::ServerError => "the API server returned an internal error",
            Self::Forbidden => "the API server returned 403 Forbidden",
            Self::Invalid => "the API server returned 422 Invalid",
            Self::Unreachable => "no response from the API server",
        })
    }
}
