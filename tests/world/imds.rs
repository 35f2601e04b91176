//! Instance metadata as one machine sees it: a scripted IMDSv2 on the machine's own loopback address, so that agents are
//! tested against every answer the real service gives, and against those that it gives on bad days.
//!
//! What it serves comes from [`Facts`], which may change at any moment; what goes wrong comes from [`Fault`]s, queued for
//! one path or standing until lifted. Only version 2 is spoken: without a token there is a 401.

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

/// A metadata service for one machine. Dropping it ends it at once, open connections included.
#[derive(Debug)]
pub struct Imds {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    cut: AbortHandle,
    server: tokio::sync::Mutex<JoinHandle<()>>,
}

/// Everything a request may read or change.
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
    /// When the address cannot be bound.
    pub async fn start(address: IpAddr, facts: Facts) -> Result<Self> {
        Self::start_at(SocketAddr::new(address, 0), facts).await
    }

    /// As [`Imds::start`] on a given port: how a service comes back after it was gone.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn start_at(address: SocketAddr, facts: Facts) -> Result<Self> {
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("cannot serve instance metadata on {address}"))?;
        let address = listener.local_addr().context("the metadata listener has no address")?;
        let state = State { facts, script: Script::default(), tokens: Tokens::default() };
        let state = Arc::new(Mutex::new(state));
        let server = tokio::spawn(accept(listener, Arc::clone(&state)));
        Ok(Self { address, state, cut: server.abort_handle(), server: tokio::sync::Mutex::new(server) })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its endpoint, without a slash at the end: what `AWS_EC2_METADATA_SERVICE_ENDPOINT` takes.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes what is served; the next request sees it.
    pub fn update(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.lock().facts);
    }

    /// What is served now.
    #[must_use]
    pub fn facts(&self) -> Facts {
        self.lock().facts.clone()
    }

    /// Lets the next requests for `path` (such as `meta-data/mac`, or `api/token`) fail, one fault each, in this order.
    pub fn script(&self, path: &str, faults: impl IntoIterator<Item = Fault>) {
        self.lock().script.queue(path, faults);
    }

    /// Lets every request for `path` fail this way once the queue of [`Imds::script`] is empty; `None` lifts it.
    pub fn always(&self, path: &str, fault: Option<Fault>) {
        self.lock().script.always(path, fault);
    }

    /// Forgets every token: whoever holds one gets a 401, as after a stop and start of the instance.
    pub fn expire_tokens(&self) {
        self.lock().tokens.expire_all();
    }

    /// How many requests for `path` came so far, refused ones included.
    #[must_use]
    pub fn requests(&self, path: &str) -> usize {
        self.lock().script.seen(path)
    }

    /// Ends it: the port refuses connections when this returns, and those that were open are closed.
    pub async fn stop(&self) {
        self.cut.abort();
        let mut server = self.server.lock().await;
        if !server.is_finished() {
            // Cancelled is what it should say; a panic was printed when it happened.
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

/// Accepts for ever. The connections' set is dropped, and thereby ended, with this future.
async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                let state = Arc::clone(&state);
                let service = service_fn(move |request| serve(Arc::clone(&state), request));
                connections.spawn(async move {
                    // Ends with an error whenever a fault cuts it, or the client goes away.
                    drop(http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
                });
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One request: first what the script says, then what the service says.
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
