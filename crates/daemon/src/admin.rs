//! Admin port for probes and scrapes: `/healthz`, `/readyz` and `/metrics`. A framework such as `axum` would add a router and
//! its layers to every image, for three paths.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

/// Timeout for the headers of a request, so that idle connections cannot accumulate.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Responses of the admin port.
pub trait Admin: Send + Sync + 'static {
    /// Returns `Err` with a sentence if the process should be restarted.
    ///
    /// # Errors
    /// Returns the sentence for `/healthz`.
    fn healthy(&self) -> Result<(), String>;
    /// Returns `Err` with a sentence while the process cannot accept work.
    ///
    /// # Errors
    /// Returns the sentence for `/readyz`.
    fn ready(&self) -> Result<(), String>;
    /// Returns the text of `/metrics`.
    fn metrics(&self) -> String;
}

/// Binds the port.
///
/// # Errors
/// Returns an error if the address cannot be bound.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Serves the admin port forever. Several ports may serve one [`Admin`].
pub async fn serve(listener: TcpListener, admin: Arc<dyn Admin>) -> Infallible {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // File descriptors are exhausted: only waiting can help.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let admin = Arc::clone(&admin);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let answer = answer(&request, admin.as_ref());
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                log::debug!(error:% = error; "admin connection ended");
            }
        });
    }
}

fn answer(request: &Request<Incoming>, admin: &dyn Admin) -> Response<Full<Bytes>> {
    match request.uri().path() {
        "/healthz" => probe(admin.healthy()),
        "/readyz" => probe(admin.ready()),
        "/metrics" => reply(StatusCode::OK, admin.metrics()),
        _ => reply(StatusCode::NOT_FOUND, "try /healthz, /readyz or /metrics\n".to_owned()),
    }
}

fn probe(state: Result<(), String>) -> Response<Full<Bytes>> {
    match state {
        Ok(()) => reply(StatusCode::OK, "ok\n".to_owned()),
        Err(reason) => reply(StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

fn reply(status: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
}
