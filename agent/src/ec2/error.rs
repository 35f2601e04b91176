//! Why EC2 gave no answer, and whether asking again may help.

use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::identity::CredentialsError;

/// Codes of refusals that pass. Source: EC2's API reference, "Error codes".
const PASSING: [&str; 9] = [
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "RequestThrottled",
    "EC2ThrottledException",
    "Unavailable",
    "ServiceUnavailable",
    "InternalError",
    "RequestTimeout",
];

/// Why EC2 gave no answer.
#[derive(Debug, Error)]
pub enum Ec2Error {
    /// A variable of the environment cannot be used.
    #[error("invalid value of {name} in the environment; {cure}")]
    Variable {
        /// Its name.
        name: String,
        /// What to write.
        cure: &'static str,
    },
    /// The machine cannot prove who it is.
    #[error("no credentials for EC2")]
    Credentials(#[source] CredentialsError),
    /// Nobody answers.
    #[error("cannot connect to {server}; check routes, security groups and DNS, or set HTTPS_PROXY")]
    Connect {
        /// Host and port.
        server: String,
        /// What the socket says.
        #[source]
        source: io::Error,
    },
    /// The proxy does not let us through.
    #[error("proxy {proxy} cannot connect to {server}: `{answer}`")]
    Proxy {
        /// Host and port of the proxy.
        proxy: String,
        /// Where we want to go.
        server: String,
        /// Its answer's first line.
        answer: String,
    },
    /// The certificates that we trust cannot be read.
    #[error("no trusted certificates for TLS: {problem}; install ca-certificates or set AWS_CA_BUNDLE")]
    Trust {
        /// What is wrong.
        problem: String,
    },
    /// No whole answer in time.
    #[error("no response from {server} within {} s", timeout.as_secs())]
    Timeout {
        /// Host and port.
        server: String,
        /// How long we waited.
        timeout: Duration,
    },
    /// The connection broke.
    #[error("connection to {server} closed")]
    Broken {
        /// Host and port.
        server: String,
        /// What the HTTP library says.
        #[source]
        source: hyper::Error,
    },
    /// EC2 says no.
    #[error("EC2 returned {status} {code} to {action}: {message}")]
    Refused {
        /// The API action.
        action: &'static str,
        /// HTTP status.
        status: u16,
        /// EC2's code.
        code: String,
        /// EC2's words.
        message: String,
    },
    /// An answer that is not what it should be.
    #[error("EC2 did not return {expected} to {action}; is a proxy in between?")]
    Content {
        /// The API action.
        action: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// EC2 does not know the instance's name in time.
    #[error("EC2 has no private DNS name for {instance} after {} s; check that the VPC assigns DNS host names", after.as_secs())]
    Unnamed {
        /// The instance's id.
        instance: String,
        /// How long we asked.
        after: Duration,
    },
}

impl Ec2Error {
    /// Whether the same request may succeed later.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Timeout { .. } | Self::Broken { .. } | Self::Proxy { .. } => true,
            Self::Credentials(error) => {
                matches!(
                    error,
                    CredentialsError::Metadata(_) | CredentialsError::NoRole | CredentialsError::Ended { .. }
                )
            }
            Self::Refused { status, code, .. } => *status >= 500 || *status == 429 || PASSING.contains(&code.as_str()),
            Self::Variable { .. } | Self::Trust { .. } | Self::Content { .. } | Self::Unnamed { .. } => false,
        }
    }

    /// Whether EC2 has not heard of the instance yet.
    #[must_use]
    pub fn is_unknown_instance(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code.starts_with("InvalidInstanceID"))
    }
}
