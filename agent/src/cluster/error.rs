//! Errors of calls to the API server, with the status code and `Retry-After` on which the drain decides.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use machine::document::{Fault, read_json};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::aws::identity::CredentialsError;

/// Reasons why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The kubeconfig, or a file that it names, cannot be read.
    #[error("cannot read {}; bootstrap or kubelet writes it", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The kubeconfig is invalid.
    #[error("invalid kubeconfig {}: {problem}", path.display())]
    Kubeconfig {
        /// Path of the file.
        path: PathBuf,
        /// The part that is missing or wrong.
        problem: String,
    },
    /// A certificate or key does not parse, or TLS refuses it.
    #[error("cannot use the {what} of the kubeconfig for TLS: {problem}")]
    Tls {
        /// Name of the part.
        what: &'static str,
        /// The problem of the part.
        problem: String,
    },
    /// The token command failed.
    #[error("the credentials command `{command}` returned no token: {problem}")]
    Exec {
        /// The command.
        command: String,
        /// The problem.
        problem: String,
    },
    /// The machine has no credentials to sign a token.
    #[error("cannot create a token for the API server")]
    Credentials(#[source] CredentialsError),
    /// The server does not accept our credentials.
    #[error("unauthorized (401 to {what}): {cure}")]
    Unauthorized {
        /// Method and path.
        what: String,
        /// Remedy, by the source of the credentials.
        cure: String,
        /// A new token is worth an immediate retry.
        again: bool,
    },
    /// No connection could be opened.
    #[error("cannot connect to the API server {server}; check its address and the security groups")]
    Connect {
        /// Host and port.
        server: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The connection was closed.
    #[error("connection closed during {what}")]
    Broken {
        /// Method and path.
        what: String,
        /// Cause.
        #[source]
        source: hyper::Error,
    },
    /// The response, or an object in a watch, is too long.
    #[error(
        "the API server sent more than {limit} bytes to {what}; remove large annotations from the pods of this node"
    )]
    TooLong {
        /// Method and path.
        what: String,
        /// Limit in bytes.
        limit: usize,
    },
    /// No response arrived in time.
    #[error("no response to {what} within {seconds} s")]
    Timeout {
        /// Method and path.
        what: String,
        /// Time limit in seconds.
        seconds: u64,
    },
    /// The request was not sent: its deadline passed before the connection was ready.
    #[error("{what} was not sent: deadline exceeded")]
    Late {
        /// Method and path.
        what: String,
    },
    /// A response other than 2xx.
    #[error("the API server returned {status} to {what}: {message}")]
    Status {
        /// Method and path.
        what: String,
        /// HTTP status code.
        status: u16,
        /// The `message` of the Status object, or the start of the body.
        message: String,
        /// The header `Retry-After`, when it is in seconds.
        retry_after: Option<Duration>,
    },
    /// A body of another type than requested.
    #[error("invalid response of the API server to {what}")]
    Body {
        /// Method and path.
        what: String,
        /// Cause.
        #[source]
        source: Fault,
    },
}

impl ClusterError {
    /// Returns the HTTP status code, if the server returned one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            Self::Unauthorized { .. } => Some(401),
            _ => None,
        }
    }

    /// Converts the error into a reply for the drain.
    #[must_use]
    pub fn reply(&self) -> drain::Reply {
        match self {
            Self::Status { status, message, retry_after, .. } => {
                drain::Reply::from_status(*status, message, *retry_after)
            }
            Self::Unauthorized { cure, .. } => drain::Reply::from_status(401, cure, None),
            _ => drain::Reply::Unreachable,
        }
    }
}

/// The informative fields of a `meta/v1` Status.
#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    causes: Vec<Cause>,
}

#[derive(Deserialize)]
struct Cause {
    #[serde(default)]
    message: String,
}

impl Status {
    /// Returns the message with its causes: only a cause names the PodDisruptionBudget that blocks a pod.
    fn text(self) -> String {
        let causes = self.details.into_iter().flat_map(|details| details.causes).map(|cause| cause.message);
        let said = std::iter::once(self.message).chain(causes).filter(|message| !message.is_empty());
        said.collect::<Vec<_>>().join(" ")
    }
}

/// Returns the error for a response that is not 2xx.
pub(super) fn refused(what: &str, status: u16, retry_after: Option<Duration>, body: &[u8]) -> ClusterError {
    let message = read_json(body).map(Status::text).ok().filter(|message| !message.is_empty());
    let message = message.unwrap_or_else(|| String::from_utf8_lossy(body).chars().take(200).collect());
    ClusterError::Status { what: what.to_owned(), status, message, retry_after }
}

/// Parses a body; an error names the call.
pub(super) fn parse<T: DeserializeOwned>(what: &str, body: &[u8]) -> Result<T, ClusterError> {
    let parsed = read_json(body);
    parsed.map_err(|source| ClusterError::Body { what: what.to_owned(), source })
}
