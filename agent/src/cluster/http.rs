//! Requests over persistent connections. One connection serves one request at a time; parallel evictions use connections of
//! their own. hyper-util's pooled client cannot drop its connections, which a replaced certificate requires.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use hyper::{Method, Request, Response};
use jiff::SignedDuration;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpUserTimeout;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::access::Access;
use super::bearer::Bearer;
use super::clock::Clock;
use super::error::{ClusterError, refused};
use super::tls;
use super::wire::WriteBefore;
use crate::aws::identity::Role;
use crate::host::clock::{ClockOffset, SharedDeadline};
use crate::host::transport::{self, Sender, Transport};

/// Time limit for opening a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// Greatest size of a response, in bytes: a page of a list with pods of the usual greatest size.
const BODY_LIMIT: usize = 32 * 1024 * 1024;
/// Greatest number of idle connections: as many as a drain uses at once. The server closes connections that are idle for too
/// long.
const IDLE: usize = 16;

/// Connection to the API server. It writes nothing after the deadline of its request.
#[derive(Debug)]
struct Connection {
    sender: Sender,
    deadline: SharedDeadline,
}

/// Connection pool to the API server over HTTP/1.1.
#[derive(Debug)]
pub(super) struct Http {
    access: Access,
    patience: Duration,
    idle: Mutex<Vec<Connection>>,
    bearer: Bearer,
    clock: Clock,
}

impl Http {
    pub(super) fn new(access: Access, patience: Duration) -> Self {
        let bearer = Bearer::new(&access.credentials);
        Self { access, patience, idle: Mutex::default(), bearer, clock: Clock::default() }
    }

    pub(super) fn with_role(self, role: Arc<Role>) -> Self {
        Self { bearer: self.bearer.with_role(role), ..self }
    }

    pub(super) fn clock_is_behind(&self) -> SignedDuration {
        self.clock.behind()
    }

    /// Sends one request and returns the body of its response; a response other than 2xx is an error. Retries only with a new
    /// token in place of a once valid one.
    pub(super) fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Bytes)>,
    ) -> impl Future<Output = Result<Bytes, ClusterError>> {
        self.call_by(method, path, body, ClockOffset::EVER)
    }

    /// Does the same as `call`, but sends nothing from `by` on.
    pub(super) async fn call_by(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Bytes)>,
        by: ClockOffset,
    ) -> Result<Bytes, ClusterError> {
        let what = format!("{method} {path}");
        let called = timeout(self.patience, async {
            match self.exchange(method.clone(), path, body.clone(), &what, by).await {
                Err(ClusterError::Unauthorized { again: true, .. }) => {
                    self.exchange(method, path, body, &what, by).await
                }
                other => other,
            }
        });
        let called = called.await;
        called.unwrap_or_else(|_| Err(ClusterError::Timeout { what, seconds: self.patience.as_secs() }))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Bytes)>,
        what: &str,
        by: ClockOffset,
    ) -> Result<Bytes, ClusterError> {
        let mut connection = self.connection().await?;
        let request = self.request(method, path, body).await?;
        // A process that was suspended until now must not send a request that another program sends by now. The connection
        // checks the same at each write.
        if by.is_over() {
            self.keep(connection);
            return Err(ClusterError::Late { what: what.to_owned() });
        }
        connection.deadline.set(by);
        let response = connection.sender.send_request(request).await.map_err(|source| unsent(what, by, source))?;
        connection.deadline.set(ClockOffset::EVER);
        let body = self.body(response, what).await?;
        self.keep(connection);
        Ok(body)
    }

    /// Opens a stream of bytes on a connection of its own; the connection lives as long as the returned sender.
    pub(super) async fn stream(&self, path: &str) -> Result<(Sender, Incoming), ClusterError> {
        let what = format!("GET {path}");
        let opened = timeout(self.patience, async {
            let mut connection = self.open().await?;
            let request = self.request(Method::GET, path, None).await?;
            let broken = |source| ClusterError::Broken { what: what.clone(), source };
            let response = connection.sender.send_request(request).await.map_err(broken)?;
            if response.status().is_success() {
                return Ok((connection.sender, response.into_body()));
            }
            Err(self.body(response, &what).await.err().unwrap_or_else(|| refused(&what, 0, None, b"")))
        });
        let opened = opened.await;
        opened.unwrap_or_else(|_| Err(ClusterError::Timeout { what, seconds: self.patience.as_secs() }))
    }

    async fn body(&self, response: Response<Incoming>, what: &str) -> Result<Bytes, ClusterError> {
        let status = response.status();
        self.clock.learn(response.headers());
        if status.as_u16() == 401 {
            return Err(self.unauthorized(what).await);
        }
        let after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let after = after.and_then(|value| value.trim().parse().ok()).map(Duration::from_secs);
        let collected = Limited::new(response.into_body(), BODY_LIMIT).collect().await;
        let body = collected.map_err(|error| body_error(what, error))?.to_bytes();
        if status.is_success() {
            return Ok(body);
        }
        Err(refused(what, status.as_u16(), after, &body))
    }

    /// Handles a 401: the certificate was replaced, the token is no longer valid, or our clock is wrong. Resets connections and
    /// token.
    async fn unauthorized(&self, what: &str) -> ClusterError {
        self.idle.lock().clear();
        let again = self.bearer.refused(self.clock.now()).await;
        let cure = format!("{}{}", self.bearer.cure(), self.clock.complaint());
        ClusterError::Unauthorized { what: what.to_owned(), cure, again }
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Bytes)>,
    ) -> Result<Request<Full<Bytes>>, ClusterError> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, self.access.server())
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("kerf-agent/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = self.bearer.token(self.clock.now()).await? {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        let (kind, body) = body.unzip();
        if let Some(kind) = kind {
            request = request.header(CONTENT_TYPE, kind);
        }
        let built = request.body(Full::new(body.unwrap_or_default()));
        built.map_err(|error| refused(path, 400, None, error.to_string().as_bytes()))
    }

    async fn connection(&self) -> Result<Connection, ClusterError> {
        let idle = self.idle.lock().pop();
        match idle {
            Some(connection) if !connection.sender.is_closed() && connection.sender.is_ready() => Ok(connection),
            _ => self.open().await,
        }
    }

    fn keep(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE && !connection.sender.is_closed() {
            idle.push(connection);
        }
    }

    /// Limits the retransmission of unacknowledged data to our timeout. A network that is back after a minute delivers no
    /// request that timed out long ago.
    fn forget_unheard(&self, stream: &TcpStream) -> io::Result<()> {
        let patience = u32::try_from(self.patience.as_millis()).unwrap_or(u32::MAX);
        Ok(setsockopt(stream, TcpUserTimeout, &patience)?)
    }

    async fn open(&self) -> Result<Connection, ClusterError> {
        let failed = |source| ClusterError::Connect { server: self.access.server(), source };
        let connecting = TcpStream::connect((self.access.host.as_str(), self.access.port));
        let stream = timeout(CONNECT, connecting).await;
        let stream = stream.unwrap_or_else(|late| Err(late.into())).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        self.forget_unheard(&stream).map_err(failed)?;
        let deadline = SharedDeadline::new(ClockOffset::EVER);
        let mut wire: Transport = Box::new(WriteBefore::new(stream, deadline.clone()));
        if self.access.tls {
            wire = tls::handshake(&self.access, wire).await?;
        }
        let sender = transport::speak(wire).await.map_err(|source| {
            let what = format!("the greeting of {}", self.access.server());
            ClusterError::Broken { what, source }
        })?;
        Ok(Connection { sender, deadline })
    }
}

/// Returns the error for a request without a response.
fn unsent(what: &str, by: ClockOffset, source: hyper::Error) -> ClusterError {
    let is_late = source.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    let is_late = is_late.is_some_and(|cause| cause.kind() == io::ErrorKind::TimedOut) && by.is_over();
    let what = what.to_owned();
    if is_late { ClusterError::Late { what } } else { ClusterError::Broken { what, source } }
}

/// Returns the error for a body that breaks off or exceeds the limit.
fn body_error(what: &str, error: Box<dyn Error + Send + Sync>) -> ClusterError {
    let what = what.to_owned();
    match error.downcast::<hyper::Error>() {
        Ok(source) => ClusterError::Broken { what, source: *source },
        Err(_) => ClusterError::TooLong { what, limit: BODY_LIMIT },
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, duplex};

    use super::*;
    use crate::host::clock::Clock;

    /// The runtime has one thread. While the thread is blocked, the program is as good as suspended.
    #[tokio::test]
    async fn request_is_not_sent_when_the_program_was_suspended_after_the_check() -> Result<(), Box<dyn Error>> {
        let (ours, mut theirs) = duplex(1024);
        let deadline = SharedDeadline::new(ClockOffset::EVER);
        let mut sender = transport::speak(Box::new(WriteBefore::new(ours, deadline.clone()))).await?;
        let clock = Clock::anchored(None);
        let by = clock.by(clock.now() + Duration::from_millis(1));
        deadline.set(by);
        let sent = sender.send_request(Request::builder().uri("/evict").body(Full::default())?);
        while !by.is_over() {
            std::thread::yield_now();
        }
        let error = sent.await.map(drop).map_err(|source| unsent("POST /evict", by, source).to_string());
        assert_eq!(error, Err("POST /evict was not sent: deadline exceeded".to_owned()));
        drop(sender);
        let mut arrived = Vec::new();
        theirs.read_to_end(&mut arrived).await?;
        assert_eq!(arrived, b"");
        Ok(())
    }
}
