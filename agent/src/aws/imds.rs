//! The instance metadata service (IMDSv2): the only source of facts at boot, and the source of EC2's notices. The client
//! neither retries for long nor exits: every failure is a value for the caller.

pub mod backoff;
mod connection;
mod documents;

use std::time::{Duration, Instant};

use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use thiserror::Error;
use tokio::sync::Mutex;

use connection::{Connection, ImdsRequest, Reply};
pub use documents::IdentityDocument;

use crate::host::secret::Secret;

/// Endpoint on every EC2 instance.
pub const DEFAULT_ENDPOINT: &str = "http://169.254.169.254";

/// Longest lifetime of a token, which the client requests.
const TOKEN_TTL: Duration = Duration::from_secs(21_600);
const TTL_HEADER: &str = "x-aws-ec2-metadata-token-ttl-seconds";
const TOKEN_HEADER: &str = "x-aws-ec2-metadata-token";

/// Reasons why a request to IMDS failed.
#[derive(Debug, Error)]
pub enum ImdsError {
    /// The endpoint is not an `http://HOST[:PORT]` URL.
    #[error("invalid IMDS endpoint `{endpoint}`; write http://ADDRESS or http://ADDRESS:PORT")]
    Endpoint {
        /// The invalid endpoint.
        endpoint: String,
    },
    /// IMDS accepts no connection, or the network is not up yet.
    #[error("cannot connect to IMDS at {endpoint}; check that the network is up and metadata is enabled")]
    Connect {
        /// Address and port.
        endpoint: String,
        /// Cause, from the socket.
        #[source]
        source: std::io::Error,
    },
    /// No whole response arrived within the time limit.
    #[error("no response from IMDS to {path} within {} ms; it may be overloaded", timeout.as_millis())]
    Timeout {
        /// Path below `/latest/`.
        path: String,
        /// Time limit.
        timeout: Duration,
    },
    /// The connection was closed before the end of the response.
    #[error("connection to IMDS closed during {path}")]
    Broken {
        /// Path below `/latest/`.
        path: String,
        /// Cause, from the HTTP library.
        #[source]
        source: hyper::Error,
    },
    /// A response that is neither 200 nor 404.
    #[error("IMDS returned {status} for {path}; {}", cure(*status))]
    Status {
        /// Path below `/latest/`.
        path: String,
        /// HTTP status.
        status: u16,
    },
    /// A response longer than any metadata item.
    #[error("IMDS returned more than {limit} bytes for {path}; is this the metadata service?")]
    TooLong {
        /// Path below `/latest/`.
        path: String,
        /// Limit in bytes.
        limit: usize,
    },
    /// A response with unexpected content.
    #[error("IMDS did not return {expected} for {path}")]
    Content {
        /// Path below `/latest/`.
        path: String,
        /// The expected content.
        expected: &'static str,
    },
    /// A path that exists on every instance returns 404, as in the first seconds of some boots.
    #[error("IMDS has no {path} yet; it appears seconds after boot")]
    Absent {
        /// Path below `/latest/`.
        path: String,
    },
}

fn cure(status: u16) -> &'static str {
    match status {
        401 => "the token was rejected twice; check the clock of the host",
        403 => "enable the instance's metadata service (HttpEndpoint) and bypass any proxy",
        503 | 429 => "requests are throttled; other processes on this machine send too many",
        _ => "it is retried",
    }
}

/// A client with one persistent connection and one cached token. Sharing it behind an `Arc` is cheap; calls run one at a time.
#[derive(Debug)]
pub struct Imds {
    authority: String,
    timeout: Duration,
    session: Mutex<Session>,
}

/// A response of the metadata service.
#[derive(Debug, Clone)]
pub struct ImdsResponse {
    /// The item; `None` when IMDS returns 404.
    pub body: Option<Bytes>,
    /// Time of the service's clock, from the `Date` header, in whole seconds.
    pub date: Option<jiff::Timestamp>,
}

#[derive(Debug, Default)]
struct Session {
    connection: Option<Connection>,
    token: Option<SessionToken>,
}

#[derive(Debug, Clone)]
struct SessionToken {
    value: Secret,
    refresh_at: Instant,
}

impl Imds {
    /// Returns a client for `endpoint`, such as [`DEFAULT_ENDPOINT`]. `timeout` limits each exchange. The client connects on
    /// demand.
    ///
    /// # Errors
    /// [`ImdsError::Endpoint`].
    pub fn new(endpoint: &str, timeout: Duration) -> Result<Self, ImdsError> {
        let refused = || ImdsError::Endpoint { endpoint: endpoint.to_owned() };
        let rest = endpoint.trim_end_matches('/').strip_prefix("http://").ok_or_else(refused)?;
        let uri: hyper::http::uri::Authority = rest.parse().map_err(|_| refused())?;
        let authority = if uri.port().is_some() { rest.to_owned() } else { format!("{rest}:80") };
        Ok(Self { authority, timeout, session: Mutex::default() })
    }

    /// Reads `path` below `/latest/`, such as `meta-data/mac`; `None` when IMDS returns 404.
    ///
    /// A token is requested when none is cached, renewed before its end, and replaced once when IMDS refuses it.
    ///
    /// # Errors
    /// [`ImdsError`]; the client remains usable.
    pub async fn get(&self, path: &str) -> Result<Option<Bytes>, ImdsError> {
        Ok(self.ask(path).await?.body)
    }

    /// Returns a client of the same endpoint with its own connection and token, so that a wait of one client does not delay the
    /// other.
    #[must_use]
    pub fn twin(&self) -> Self {
        Self { authority: self.authority.clone(), timeout: self.timeout, session: Mutex::default() }
    }

    /// Does the same as [`Self::get`], and returns the time of EC2's clock too.
    ///
    /// # Errors
    /// [`ImdsError`]; the client remains usable.
    pub async fn ask(&self, path: &str) -> Result<ImdsResponse, ImdsError> {
        let mut session = self.session.lock().await;
        let mut reply = self.authorized(&mut session, path).await?;
        if reply.status == StatusCode::UNAUTHORIZED {
            session.token = None;
            reply = self.authorized(&mut session, path).await?;
        }
        match reply.status {
            StatusCode::OK => Ok(ImdsResponse { date: reply.date(), body: Some(reply.body) }),
            StatusCode::NOT_FOUND => Ok(ImdsResponse { date: reply.date(), body: None }),
            status => Err(ImdsError::Status { path: path.to_owned(), status: status.as_u16() }),
        }
    }

    async fn authorized(&self, session: &mut Session, path: &str) -> Result<Reply, ImdsError> {
        let token = match &session.token {
            Some(token) if Instant::now() < token.refresh_at => token.clone(),
            _ => self.renew(session).await?,
        };
        let request = ImdsRequest { method: Method::GET, path, header: TOKEN_HEADER, value: token.value.expose() };
        self.exchange(session, &request).await
    }

    async fn renew(&self, session: &mut Session) -> Result<SessionToken, ImdsError> {
        const PATH: &str = "api/token";
        let ttl = TOKEN_TTL.as_secs().to_string();
        let asked_at = Instant::now();
        let request = ImdsRequest { method: Method::PUT, path: PATH, header: TTL_HEADER, value: &ttl };
        let reply = self.exchange(session, &request).await?;
        if reply.status != StatusCode::OK {
            return Err(ImdsError::Status { path: PATH.to_owned(), status: reply.status.as_u16() });
        }
        let content = || ImdsError::Content { path: PATH.to_owned(), expected: "a token" };
        let value = plain_text(&reply.body).ok_or_else(content)?;
        let granted = reply.headers.get(TTL_HEADER).and_then(|ttl| ttl.to_str().ok()?.parse().ok());
        let token = SessionToken {
            value: value.into(),
            refresh_at: asked_at + refresh_after(granted.map_or(TOKEN_TTL, Duration::from_secs)),
        };
        session.token = Some(token.clone());
        Ok(token)
    }

    /// Sends a request on the persistent connection. The server may have closed an idle connection. After such a failure the
    /// request is sent once more on a new connection; every request here can be repeated.
    async fn exchange(&self, session: &mut Session, request: &ImdsRequest<'_>) -> Result<Reply, ImdsError> {
        if let Some(mut kept) = session.connection.take().filter(Connection::is_open) {
            match self.send(&mut kept, request).await {
                Err(ImdsError::Broken { .. }) => {}
                Err(error) => return Err(error),
                Ok(reply) => {
                    session.connection = Some(kept);
                    return Ok(reply);
                }
            }
        }
        let mut fresh = self.bounded(request.path, Connection::open(&self.authority)).await?;
        let reply = self.send(&mut fresh, request).await?;
        session.connection = Some(fresh);
        Ok(reply)
    }

    async fn send(&self, connection: &mut Connection, request: &ImdsRequest<'_>) -> Result<Reply, ImdsError> {
        self.bounded(request.path, connection.send(request, &self.authority)).await
    }

    async fn bounded<T>(&self, path: &str, work: impl Future<Output = Result<T, ImdsError>>) -> Result<T, ImdsError> {
        let expired = |_| ImdsError::Timeout { path: path.to_owned(), timeout: self.timeout };
        tokio::time::timeout(self.timeout, work).await.map_err(expired)?
    }
}

/// Returns the duration after which a token of this lifetime is renewed. Retries of a failed renewal have the other half of the
/// lifetime.
fn refresh_after(ttl: Duration) -> Duration {
    ttl / 2
}

/// Returns an item that is one line of text, without surrounding white space; `None` for any other content.
#[must_use]
pub fn plain_text(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?.trim();
    (!text.is_empty() && !text.contains(char::is_control)).then(|| text.to_owned())
}
