//! Fake instance metadata service of one machine: a scripted IMDSv2 on the machine's own loopback address. Agents are tested
//! against every response of the real service, including faulty ones.
//!
//! The content comes from [`Facts`], which may change at any moment. Faults come from [`Fault`]s, which are queued for one path
//! or permanent until removed. Only version 2 is supported: a request without a token gets a 401.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

mod answer;
mod facts;
mod script;
#[cfg(test)]
mod tests;
mod tokens;

pub use facts::{Facts, Interruption, Role};
pub use script::Fault;

use script::Script;
use tokens::Tokens;

/// Metadata service of one machine. Dropping it ends it at once, including open connections.
#[derive(Debug)]
pub struct Imds {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    cut: AbortHandle,
    server: tokio::sync::Mutex<JoinHandle<()>>,
}

/// State that a request may read or change.
#[derive(Debug)]
struct State {
    facts: Facts,
    script: Script,
    tokens: Tokens,
}

impl Imds {
    /// Serves `facts` on a free port of `address`, which must be in 127.0.0.0/8.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound.
    pub async fn start(address: IpAddr, facts: Facts) -> Result<Self> {
        Self::start_at(SocketAddr::new(address, 0), facts).await
    }

    /// Serves `facts` as [`Imds::start`] does, on a given port: simulates a service that returns after an outage.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound.
    pub async fn start_at(address: SocketAddr, facts: Facts) -> Result<Self> {
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("cannot serve instance metadata on {address}"))?;
        let address = listener.local_addr().context("the metadata listener has no address")?;
        let state = State { facts, script: Script::default(), tokens: Tokens::default() };
        let state = Arc::new(Mutex::new(state));
        let server = tokio::spawn(accept(listener, Arc::clone(&state)));
        Ok(Self { address, state, cut: server.abort_handle(), server: tokio::sync::Mutex::new(server) })
    }

    /// Returns the address of the service.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the endpoint without a trailing slash, in the form of `AWS_EC2_METADATA_SERVICE_ENDPOINT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes the content from the next request on.
    pub fn update(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.lock().facts);
    }

    /// Returns the current content.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.lock().facts.clone()
    }

    /// Queues faults for the next requests of `path` (such as `meta-data/mac`, or `api/token`), one fault per request, in this
    /// order.
    pub fn script(&self, path: &str, faults: impl IntoIterator<Item = Fault>) {
        self.lock().script.queue(path, faults);
    }

    /// Sets a permanent fault for `path`, which applies when the queue of [`Imds::script`] is empty; `None` removes it.
    pub fn always(&self, path: &str, fault: Option<Fault>) {
        self.lock().script.always(path, fault);
    }

    /// Invalidates every token: their clients get a 401, as after a stop and start of the instance.
    pub fn expire_tokens(&self) {
        self.lock().tokens.expire_all();
    }

    /// Returns the number of requests for `path` so far, including rejected ones.
    #[must_use]
    pub fn requests(&self, path: &str) -> usize {
        self.lock().script.seen(path)
    }

    /// Stops the service: when this returns, the port refuses connections and all open ones are closed.
    pub async fn stop(&self) {
        self.cut.abort();
        let mut server = self.server.lock().await;
        if !server.is_finished() {
            // The expected result is a cancellation; a panic was printed when it happened.
            drop((&mut *server).await);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Imds {
    fn drop(&mut self) {
        self.cut.abort();
    }
}

/// Accepts connections forever. The set of connections is dropped with this future, which ends them.
async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                let state = Arc::clone(&state);
                let service = service_fn(move |request| serve(Arc::clone(&state), request));
                connections.spawn(async move {
                    // A connection ends with an error if a fault cuts it or if the client disconnects.
                    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
                });
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Serves one request: first the fault of the script, then the normal response.
async fn serve(
    state: Arc<Mutex<State>>,
    request: http::Request<hyper::body::Incoming>,
) -> io::Result<http::Response<answer::Body>> {
    let path = answer::path(request.uri().path()).to_owned();
    let fault = state.lock().unwrap_or_else(PoisonError::into_inner).script.next(&path);
    if let Some(Fault::Delay(time)) = &fault {
        tokio::time::sleep(*time).await;
    }
    let response = match fault {
        Some(Fault::Drop) => return Err(io::Error::other("dropped by the script")),
        Some(Fault::Status(status)) => answer::status(status),
        Some(Fault::Hang) => std::future::pending().await,
        other => {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let State { facts, tokens, .. } = &mut *state;
            let plain = answer::answer(facts, tokens, request.method(), &path, request.headers(), Instant::now());
            if let Some(Fault::CutBody(bytes)) = other { answer::cut(plain, bytes) } else { answer::whole(plain) }
        }
    };
    Ok(response)
}
