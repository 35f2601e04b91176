//! What the API answered to an eviction or a deletion, reduced to what a drain does about it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pod::PodOnNode;

/// How the API server names a PodDisruptionBudget in the causes of a 429.
const BUDGET: &str = "The disruption budget ";

/// The answer to one request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// 200, 201 or 202: the pod has a deletionTimestamp now.
    Accepted,
    /// 404: the pod is gone.
    Gone,
    /// 409: another pod of that name, or an older one, has its place; ours is gone.
    Recreated,
    /// 429: a budget leaves no room, or the API server sheds load.
    Blocked {
        /// The server's `Retry-After`.
        retry_after: Option<Duration>,
        /// Name of the PodDisruptionBudget, where the server names one.
        budget: Option<String>,
    },
    /// 500 because more than one PodDisruptionBudget selects the pod: no eviction will ever succeed.
    SeveralBudgets,
    /// Any other 5xx.
    ServerError,
    /// 403: the pod is not on this node any more, or we are not who we were: list again.
    Forbidden,
    /// 400 or 422: the request itself is wrong.
    Invalid,
    /// No answer: no connection, a timeout, a broken body, or credentials not accepted (401).
    Unreachable,
}

impl Reply {
    /// Reads a reply off an HTTP status code, the server's message (that of the Status with those of its causes) and its `Retry-After`.
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

    /// Why the pod is still there, for the answers after which it is.
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

/// The budget that a 429 speaks of: `The disruption budget NAME needs 3 healthy pods and has 3 currently`.
fn budget(message: &str) -> Option<String> {
    let (_, rest) = message.split_once(BUDGET)?;
    let name = rest.split_whitespace().next()?;
    Some(name.to_owned())
}

/// Why the last request for a pod achieved nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Refusal {
    /// A PodDisruptionBudget leaves no room.
    Budget,
    /// The server asks to come back later, without naming a budget.
    Busy,
    /// Several PodDisruptionBudgets select the pod.
    SeveralBudgets,
    /// The server failed.
    ServerError,
    /// The server forbids it.
    Forbidden,
    /// The server calls the request malformed.
    Invalid,
    /// Nobody answered.
    Unreachable,
}

/// A pod whose last request achieved nothing.
#[derive(Clone, Copy, Debug)]
pub struct Refused<'a> {
    /// Which.
    pub pod: &'a PodOnNode,
    /// Why.
    pub why: Refusal,
    /// The budget that the server named, as `namespace/name`.
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
