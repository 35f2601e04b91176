//! HTTP server for a [`FakeCloud`]: the protocols of EC2, IAM, STS, SQS, SSM, EKS, FIS, ARC and the price list on one loopback port. The real SDK,
//! the real controller and any other AWS client can use it.
//!
//! Errors of the cloud become EC2 error responses; its transport failures become closed connections. Tests request faults of
//! the connection itself, see [`Fault`]. Every request writes one line to a readable log.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cloud::fake::FakeCloud;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

mod account;
mod answer;
mod arc;
mod call;
mod ec2;
mod eks;
mod fault;
mod fis;
mod form;
mod iam;
mod journal;
mod pricing;
mod sqs;
mod ssm;
mod xml;

use answer::{Failure, Reply};
use call::Call;
use ec2::{LaunchTags, Quota, Tokens};
use fault::Script;
use journal::Journal;

pub use fault::Fault;
pub use journal::Exchange;

/// Delay after the kernel could not accept a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Server of a cloud on a loopback port; dropping it stops it.
#[derive(Debug)]
pub struct Ec2Wire {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

/// Shared state of all connections of one server.
struct Shared {
    cloud: FakeCloud,
    script: Mutex<Script>,
    journal: Mutex<Journal>,
    quota: Mutex<Option<Quota>>,
    templates: Tokens,
    launch_tags: Mutex<LaunchTags>,
    fis: fis::Templates,
    inline_policies: Mutex<iam::InlinePolicies>,
}

impl Shared {
    fn refuses(&self, call: &Call) -> Option<Fault> {
        let Call::Ec2(action, _) = call else { return None };
        let taken = lock(&self.quota).as_mut().is_none_or(|quota| quota.take(action, Instant::now()));
        (!taken).then(Fault::throttled)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("script", &self.script).finish_non_exhaustive()
    }
}

impl Ec2Wire {
    /// Serves `cloud` on an ephemeral port of 127.0.0.1; each request is appended to the file `log`, if there is one. Must run
    /// inside a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if no port is free or if the log cannot be opened.
    pub async fn start(cloud: FakeCloud, log: Option<&Path>) -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no loopback port for the EC2 fake")?;
        let address = listener.local_addr().context("the EC2 fake's port has no address")?;
        let shared = Arc::new(Shared {
            cloud,
            script: Mutex::default(),
            journal: Mutex::new(Journal::open(log)?),
            quota: Mutex::default(),
            templates: Tokens::default(),
            launch_tags: Mutex::default(),
            fis: fis::Templates::default(),
            inline_policies: Mutex::default(),
        });
        let server = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, server })
    }

    /// Returns the address of all services.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL of all services, for `AWS_ENDPOINT_URL`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Schedules `fault` for the `nth` call of `action` from now on; 1 is the next call. `action` is the name in AWS, such as
    /// `CreateFleet`, or `CreateFleet(DryRun)` for a dry run. Every attempt of the SDK counts.
    pub fn order(&self, action: &str, nth: u64, fault: Fault) {
        lock(&self.shared.script).order(action, nth, fault);
    }

    /// Schedules a fault for each of the next calls of `action`, in order. No call can come between two of them.
    pub fn order_next(&self, action: &str, faults: impl IntoIterator<Item = Fault>) {
        let mut script = lock(&self.shared.script);
        (1..).zip(faults).for_each(|(nth, fault)| script.order(action, nth, fault));
    }

    /// Enables token buckets like those of EC2, full at first; calls beyond them are throttled.
    pub fn limit(&self) {
        *lock(&self.shared.quota) = Some(Quota::full(Instant::now()));
    }

    /// Returns the number of scheduled faults that have not occurred yet.
    #[must_use]
    pub fn waiting_faults(&self) -> usize {
        lock(&self.shared.script).waiting()
    }

    /// Returns all requests of `action` so far, oldest first; an empty `action` returns those of all actions.
    #[must_use]
    pub fn exchanges(&self, action: &str) -> Vec<Exchange> {
        lock(&self.shared.journal).of(action)
    }
}

impl Drop for Ec2Wire {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Locks a mutex, also after a test panicked while it held the lock.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Accepts connections forever; they end with this task.
async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => { connections.spawn(connection(stream, Arc::clone(&shared))); }
                Err(error) => {
                    log::warn!("the EC2 fake cannot accept: {error}");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    if let Err(error) = stream.set_nodelay(true) {
        log::debug!("the EC2 fake's connection stays slow: {error}");
    }
    let service = service_fn(move |request| exchange(Arc::clone(&shared), request));
    if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
        log::debug!("a connection to the EC2 fake ended: {error}");
    }
}

/// Error that closes the connection without a response.
#[derive(Debug)]
struct Dropped;

impl std::fmt::Display for Dropped {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the connection is dropped as ordered")
    }
}

impl std::error::Error for Dropped {}

async fn exchange(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Dropped> {
    let begin = Instant::now();
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Dropped)?.to_bytes();
    let call = Call::read(&head, &body);
    let fault = lock(&shared.script).strike(call.action()).or_else(|| shared.refuses(&call));
    let answer = under(fault, call.answer(&shared, &head.headers)).await;
    lock(&shared.journal).write(&call, &head.headers, &answer, begin.elapsed());
    match answer {
        Ok(reply) => Ok(respond(StatusCode::OK, call.content_type(), reply.body)),
        Err(Failure::Refused { status, code, message }) => {
            let mut response = respond(status, call.content_type(), call.error(&code, &message));
            call.mark(&code, response.headers_mut());
            Ok(response)
        }
        Err(Failure::Garbled(status)) => Ok(respond(status, "text/html", "<html><h1>Oops</h1>".to_owned())),
        Err(Failure::Dropped) => Err(Dropped),
    }
}

/// Runs the call, or replaces it by the fault.
async fn under(fault: Option<Fault>, call: impl Future<Output = Result<Reply, Failure>>) -> Result<Reply, Failure> {
    match fault {
        None => call.await,
        Some(Fault::Drop) => Err(Failure::Dropped),
        Some(Fault::LoseReply) => call.await.and(Err(Failure::Dropped)),
        Some(Fault::Refuse { status, code, message }) => Err(Failure::Refused { status, code, message }),
        Some(Fault::Garble(status)) => Err(Failure::Garbled(status)),
        Some(Fault::Slow(time)) => {
            tokio::time::sleep(time).await;
            call.await
        }
    }
}

fn respond(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
