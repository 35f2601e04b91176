//! Errors of EC2 requests, and the decision on whether a retry may help.

use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::aws::identity::CredentialsError;

/// Codes of temporary refusals. Source: EC2's API reference, "Error codes".
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

/// Reasons why a request to EC2 failed.
#[derive(Debug, Error)]
pub enum Ec2Error {
    /// A variable of the environment is invalid.
    #[error("invalid value of {name} in the environment; {cure}")]
    Variable {
        /// Name of the variable.
        name: String,
        /// Remedy.
        cure: &'static str,
    },
    /// The machine has no credentials.
    #[error("no credentials for EC2")]
    Credentials(#[source] CredentialsError),
    /// No connection could be opened, or the response could not be read.
    #[error("cannot connect to {server}; check routes, security groups and DNS, or set HTTPS_PROXY")]
    Connect {
        /// Host and port.
        server: String,
        /// Cause, from the socket.
        #[source]
        source: io::Error,
    },
    /// The proxy refuses the connection.
    #[error("proxy {proxy} cannot connect to {server}: `{answer}`")]
    Proxy {
        /// Host and port of the proxy.
        proxy: String,
        /// Host and port of the destination.
        server: String,
        /// First line of the proxy's response.
        answer: String,
    },
    /// The trusted certificates cannot be read.
    #[error("no trusted certificates for TLS: {problem}; install ca-certificates or set AWS_CA_BUNDLE")]
    Trust {
        /// The problem.
        problem: String,
    },
    /// No whole response arrived in time.
    #[error("no response from {server} within {} s", timeout.as_secs())]
    Timeout {
        /// Host and port.
        server: String,
        /// Time limit.
        timeout: Duration,
    },
    /// The connection was closed.
    #[error("connection to {server} closed")]
    Broken {
        /// Host and port.
        server: String,
        /// Cause, from the HTTP library.
        #[source]
        source: hyper::Error,
    },
    /// EC2 refused the request.
    #[error("EC2 returned {status} {code} to {action}: {message}")]
    Refused {
        /// The API action.
        action: &'static str,
        /// HTTP status.
        status: u16,
        /// Error code of EC2.
        code: String,
        /// Message of EC2.
        message: String,
    },
    /// A response with unexpected content.
    #[error("EC2 did not return {expected} to {action}; is a proxy in between?")]
    Content {
        /// The API action.
        action: &'static str,
        /// The expected content.
        expected: &'static str,
    },
    /// EC2 has no name for the instance in time.
    #[error("EC2 has no private DNS name for {instance} after {} s; check that the VPC assigns DNS host names", after.as_secs())]
    Unnamed {
        /// Id of the instance.
        instance: String,
        /// Duration of the wait.
        after: Duration,
    },
}

impl Ec2Error {
    /// Reports whether the same request may succeed later.
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

    /// Reports whether EC2 does not list the instance yet.
    #[must_use]
    pub fn is_unknown_instance(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code.starts_with("InvalidInstanceID"))
    }
}
