//! A [`Cloud`] on the wire: the protocols of EC2, IAM, SQS, SSM, EKS and the price list on one loopback port, so that the real SDK, the real
//! controller and anything else that speaks to AWS can talk to [`cloud::fake::FakeCloud`].
//!
//! What the cloud refuses becomes EC2's error answer; what it calls a transport failure becomes a closed connection.
//! Faults of the wire itself come on order, see [`Fault`]. Every request leaves one line in a log for people.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cloud::Cloud;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

mod actions;
mod answer;
mod call;
mod describe;
mod eks;
mod fault;
mod form;
mod iam;
mod instances;
mod journal;
mod launch;
mod places;
mod pricing;
mod quota;
mod sqs;
mod ssm;
mod statuses;
mod template;
mod types;
mod xml;

use answer::{Failure, Reply};
use call::Call;
use fault::Script;
use journal::Journal;
use quota::Quota;

pub use fault::Fault;
pub use journal::Exchange;

/// How long to wait when the kernel has no room for another connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// A cloud that answers on a loopback port until it is dropped.
#[derive(Debug)]
pub struct Ec2Wire {
    address: SocketAddr,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

/// What all connections of one server share.
struct Shared {
    cloud: Arc<dyn Cloud>,
    script: Mutex<Script>,
    journal: Mutex<Journal>,
    quota: Mutex<Option<Quota>>,
    templates: launch::Tokens,
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
    /// Serves `cloud` on an ephemeral port of 127.0.0.1; each request is appended to the file `log`, if there is one.
    /// Must run inside a tokio runtime.
    ///
    /// # Errors
    /// When no port is free or the log cannot be opened.
    pub async fn start(cloud: Arc<dyn Cloud>, log: Option<&Path>) -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no loopback port for the EC2 fake")?;
        let address = listener.local_addr().context("the EC2 fake's port has no address")?;
        let shared = Arc::new(Shared {
            cloud,
            script: Mutex::default(),
            journal: Mutex::new(Journal::open(log)?),
            quota: Mutex::default(),
            templates: launch::Tokens::default(),
        });
        let server = tokio::spawn(serve(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, server })
    }

    /// Where it answers, for `AWS_ENDPOINT_URL`: all services alike.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Orders `fault` for the `nth` call of `action` from now on; 1 is the next. `action` is AWS' name, such as
    /// `CreateFleet`, or `CreateFleet(DryRun)` for the question alone. Every attempt that the SDK makes counts.
    pub fn order(&self, action: &str, nth: u64, fault: Fault) {
        lock(&self.shared.script).order(action, nth, fault);
    }

    /// From now on calls of EC2 are counted in token buckets like its own, full at first, and those beyond are refused.
    pub fn limit(&self) {
        *lock(&self.shared.quota) = Some(Quota::full(Instant::now()));
    }

    /// How many ordered faults have not struck yet.
    #[must_use]
    pub fn waiting_faults(&self) -> usize {
        lock(&self.shared.script).waiting()
    }

    /// All requests of `action` so far, oldest first; of all actions when it is empty.
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

/// The lock's content, also after a test panicked while it held it.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Accepts for ever; its connections end with it.
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

/// The connection ends without an answer.
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

/// Lets the call happen, or not, as `fault` has it.
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
