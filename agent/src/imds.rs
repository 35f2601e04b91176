//! The instance metadata service (IMDSv2): the only source of truth that a machine has at boot, and the one that says
//! when EC2 wants it back. Nothing here retries for long or exits: every refusal is a value for the caller to judge.

pub mod backoff;
mod connection;
mod documents;

use std::time::{Duration, Instant};

use hyper::body::Bytes;
use hyper::{Method, StatusCode};
use thiserror::Error;
use tokio::sync::Mutex;

use connection::{Connection, Reply};
pub use documents::IdentityDocument;

/// The endpoint on every EC2 instance.
pub const DEFAULT_ENDPOINT: &str = "http://169.254.169.254";

/// Longest life of a token, the one we ask for.
const TOKEN_TTL: Duration = Duration::from_secs(21_600);
const TTL_HEADER: &str = "x-aws-ec2-metadata-token-ttl-seconds";
const TOKEN_HEADER: &str = "x-aws-ec2-metadata-token";

/// Why IMDS gave no answer.
#[derive(Debug, Error)]
pub enum ImdsError {
    /// The endpoint is not an `http://HOST[:PORT]` URL.
    #[error("invalid IMDS endpoint `{endpoint}`; write http://ADDRESS or http://ADDRESS:PORT")]
    Endpoint {
        /// What was given.
        endpoint: String,
    },
    /// Nothing listens, or the network is not up yet.
    #[error("cannot connect to IMDS at {endpoint}; check that the network is up and metadata is enabled")]
    Connect {
        /// Address and port.
        endpoint: String,
        /// What the socket says.
        #[source]
        source: std::io::Error,
    },
    /// No whole answer within the time-out.
    #[error("no response from IMDS to {path} within {} ms; it may be overloaded", timeout.as_millis())]
    Timeout {
        /// Path below `/latest/`.
        path: String,
        /// How long we waited.
        timeout: Duration,
    },
    /// The connection broke before or within the answer.
    #[error("connection to IMDS closed during {path}")]
    Broken {
        /// Path below `/latest/`.
        path: String,
        /// What the HTTP library says.
        #[source]
        source: hyper::Error,
    },
    /// An answer that is neither 200 nor 404.
    #[error("IMDS returned {status} for {path}; {}", cure(*status))]
    Status {
        /// Path below `/latest/`.
        path: String,
        /// HTTP status.
        status: u16,
    },
    /// More than any metadata item has.
    #[error("IMDS returned more than {limit} bytes for {path}; is this the metadata service?")]
    TooLong {
        /// Path below `/latest/`.
        path: String,
        /// Bytes.
        limit: usize,
    },
    /// An answer that is not what its path promises.
    #[error("IMDS did not return {expected} for {path}")]
    Content {
        /// Path below `/latest/`.
        path: String,
        /// What the path promises.
        expected: &'static str,
    },
    /// A path that exists on every instance answers 404, as in the first seconds of some boots.
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

/// A client with one kept connection and one kept token. Cheap to share behind an `Arc`; calls run one at a time.
#[derive(Debug)]
pub struct Imds {
    authority: String,
    timeout: Duration,
    session: Mutex<Session>,
}

/// An answer of the metadata service.
#[derive(Debug, Clone)]
pub struct ImdsResponse {
    /// The item; `None` when IMDS says 404.
    pub body: Option<Bytes>,
    /// The service's clock, from the `Date` header, in whole seconds.
    pub date: Option<jiff::Timestamp>,
}

#[derive(Debug, Default)]
struct Session {
    connection: Option<Connection>,
    token: Option<SessionToken>,
}

#[derive(Debug, Clone)]
struct SessionToken {
    value: String,
    refresh_at: Instant,
}

impl Imds {
    /// A client for `endpoint`, such as [`DEFAULT_ENDPOINT`], that gives each exchange `timeout`. Connects on demand.
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

    /// Reads `path` below `/latest/`, such as `meta-data/mac`; `None` when IMDS says 404.
    ///
    /// A token is fetched when there is none, renewed ahead of its end, and replaced once when IMDS refuses it.
    ///
    /// # Errors
    /// [`ImdsError`]; the client stays usable.
    pub async fn get(&self, path: &str) -> Result<Option<Bytes>, ImdsError> {
        Ok(self.ask(path).await?.body)
    }

    /// A client of the same endpoint with a connection and a token of its own: what one of them waits for does not hold the other up.
    #[must_use]
    pub fn twin(&self) -> Self {
        Self { authority: self.authority.clone(), timeout: self.timeout, session: Mutex::default() }
    }

    /// As [`Self::get`], with what EC2's clock said.
    ///
    /// # Errors
    /// [`ImdsError`]; the client stays usable.
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
        let header = (TOKEN_HEADER, token.value.as_str());
        self.exchange(session, Method::GET, path, header).await
    }

    async fn renew(&self, session: &mut Session) -> Result<SessionToken, ImdsError> {
        const PATH: &str = "api/token";
        let ttl = TOKEN_TTL.as_secs().to_string();
        let asked_at = Instant::now();
        let reply = self.exchange(session, Method::PUT, PATH, (TTL_HEADER, &ttl)).await?;
        if reply.status != StatusCode::OK {
            return Err(ImdsError::Status { path: PATH.to_owned(), status: reply.status.as_u16() });
        }
        let content = || ImdsError::Content { path: PATH.to_owned(), expected: "a token" };
        let value = plain_text(&reply.body).ok_or_else(content)?;
        let granted = reply.headers.get(TTL_HEADER).and_then(|ttl| ttl.to_str().ok()?.parse().ok());
        let token = SessionToken {
            value,
            refresh_at: asked_at + refresh_after(granted.map_or(TOKEN_TTL, Duration::from_secs)),
        };
        session.token = Some(token.clone());
        Ok(token)
    }

    /// One exchange on the kept connection. A kept connection may have been closed by the other side while idle, so
    /// when one breaks the request is sent once more on a new one; every request here may be repeated.
    async fn exchange(
        &self,
        session: &mut Session,
        method: Method,
        path: &str,
        header: (&str, &str),
    ) -> Result<Reply, ImdsError> {
        if let Some(mut kept) = session.connection.take().filter(Connection::is_open) {
            match self.send(&mut kept, method.clone(), path, header).await {
                Err(ImdsError::Broken { .. }) => {}
                Err(error) => return Err(error),
                Ok(reply) => {
                    session.connection = Some(kept);
                    return Ok(reply);
                }
            }
        }
        let mut fresh = self.bounded(path, Connection::open(&self.authority)).await?;
        let reply = self.send(&mut fresh, method, path, header).await?;
        session.connection = Some(fresh);
        Ok(reply)
    }

    async fn send(
        &self,
        connection: &mut Connection,
        method: Method,
        path: &str,
        header: (&str, &str),
    ) -> Result<Reply, ImdsError> {
        self.bounded(path, connection.send(method, path, &self.authority, header)).await
    }

    async fn bounded<T>(&self, path: &str, work: impl Future<Output = Result<T, ImdsError>>) -> Result<T, ImdsError> {
        let expired = |_| ImdsError::Timeout { path: path.to_owned(), timeout: self.timeout };
        tokio::time::timeout(self.timeout, work).await.map_err(expired)?
    }
}

/// How long a token of this life is used: a renewal that fails has the other half of it to be tried again.
fn refresh_after(ttl: Duration) -> Duration {
    ttl / 2
}

/// An item that is one line of text, without the white space around it; `None` for anything else.
#[must_use]
pub fn plain_text(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?.trim();
    (!text.is_empty() && !text.contains(char::is_control)).then(|| text.to_owned())
}
