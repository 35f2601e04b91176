//! What can go wrong between the agent and its API server, with the status code and `Retry-After` that the drain decides by.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use machine::document::{Fault, read_json};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::identity::CredentialsError;

/// Why a call gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// A file that the kubeconfig is or names cannot be read.
    #[error("cannot read {}; bootstrap or kubelet writes it", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The kubeconfig makes no sense.
    #[error("invalid kubeconfig {}: {problem}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// What is missing or wrong in it.
        problem: String,
    },
    /// A certificate or key does not parse, or TLS refuses it.
    #[error("cannot use the {what} of the kubeconfig for TLS: {problem}")]
    Tls {
        /// Which part.
        what: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The token command failed.
    #[error("the credentials command `{command}` returned no token: {problem}")]
    Exec {
        /// The command.
        command: String,
        /// What happened.
        problem: String,
    },
    /// The machine has no credentials to make a token with.
    #[error("cannot create a token for the API server")]
    Credentials(#[source] CredentialsError),
    /// The server does not take us for anyone.
    #[error("unauthorized (401 to {what}): {cure}")]
    Unauthorized {
        /// Method and path.
        what: String,
        /// What to do about it, by how we prove who we are.
        cure: String,
        /// Another token is worth trying at once.
        again: bool,
    },
    /// No connection.
    #[error("cannot connect to the API server {server}; check its address and the security groups")]
    Connect {
        /// Host and port.
        server: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The connection broke.
    #[error("connection closed during {what}")]
    Broken {
        /// Method and path.
        what: String,
        /// Why.
        #[source]
        source: hyper::Error,
    },
    /// No answer in time.
    #[error("no response to {what} within {seconds} s")]
    Timeout {
        /// Method and path.
        what: String,
        /// The limit.
        seconds: u64,
    },
    /// It was not sent: before the connection was ready, its time was over.
    #[error("{what} was not sent: deadline exceeded")]
    Late {
        /// Method and path.
        what: String,
    },
    /// An answer other than 2xx.
    #[error("the API server returned {status} to {what}: {message}")]
    Status {
        /// Method and path.
        what: String,
        /// The HTTP status code.
        status: u16,
        /// The `message` of the Status object, or the start of the body.
        message: String,
        /// The header `Retry-After`, when it is in seconds.
        retry_after: Option<Duration>,
    },
    /// A body that is not what was asked for.
    #[error("invalid response of the API server to {what}")]
    Body {
        /// Method and path.
        what: String,
        /// Why.
        #[source]
        source: Fault,
    },
}

impl ClusterError {
    /// The HTTP status code, if the server gave one.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            Self::Unauthorized { .. } => Some(401),
            _ => None,
        }
    }

    /// What a drain makes of it.
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

/// The few fields of a `meta/v1` Status that tell something.
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
    /// What it says, with its causes: which budget holds a pod is only said there.
    fn text(self) -> String {
        let causes = self.details.into_iter().flat_map(|details| details.causes).map(|cause| cause.message);
        let said = std::iter::once(self.message).chain(causes).filter(|message| !message.is_empty());
        said.collect::<Vec<_>>().join(" ")
    }
}

/// An error out of an answer that is not 2xx.
pub(super) fn refused(what: &str, status: u16, retry_after: Option<Duration>, body: &[u8]) -> ClusterError {
    let message = read_json(body).map(Status::text).ok().filter(|message| !message.is_empty());
    let message = message.unwrap_or_else(|| String::from_utf8_lossy(body).chars().take(200).collect());
    ClusterError::Status { what: what.to_owned(), status, message, retry_after }
}

/// Parses a body, naming the call that it answers.
pub(super) fn parse<T: DeserializeOwned>(what: &str, body: &[u8]) -> Result<T, ClusterError> {
    let parsed = read_json(body);
    parsed.map_err(|source| ClusterError::Body { what: what.to_owned(), source })
}
