//! Admin port for probes and scrapes: `/healthz`, `/readyz` and `/metrics`, and ports with other pages. A framework such as `axum`
//! would add a router and its layers to every image, for a few paths.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::task::{JoinError, spawn_blocking};

use crate::metric;

/// Timeout for the headers of a request, so that idle connections cannot accumulate.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Media type of pages without one of their own.
const TEXT: &str = "text/plain; charset=utf-8";

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

/// Pages of a port.
pub trait Pages: Send + Sync + 'static {
    /// Returns the page of a path, or `None` without such a page.
    fn page(&self, path: &str) -> Option<Page>;
    /// Returns the sentence for an unknown path, which names the known ones.
    fn hint(&self) -> &'static str;
}

/// Response with status 200, or 503 if `failed`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// True for a failed probe.
    pub failed: bool,
    /// Media type; empty for text.
    pub media_type: &'static str,
    /// Body.
    pub body: Vec<u8>,
}

/// Pages of [`Admin`].
struct AdminPages(Arc<dyn Admin>);

impl Pages for AdminPages {
    fn page(&self, path: &str) -> Option<Page> {
        match path {
            "/healthz" => Some(probe(self.0.healthy())),
            "/readyz" => Some(probe(self.0.ready())),
            "/metrics" => {
                Some(Page { media_type: metric::MEDIA_TYPE, body: self.0.metrics().into_bytes(), ..Page::default() })
            }
            _ => None,
        }
    }

    fn hint(&self) -> &'static str {
        "try /healthz, /readyz or /metrics"
    }
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
    serve_pages(listener, Arc::new(AdminPages(admin))).await
}

/// Serves pages forever. Each page is made on a thread of its own, so that a slow one does not delay the others.
pub async fn serve_pages(listener: TcpListener, pages: Arc<dyn Pages>) -> Infallible {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // File descriptors are exhausted: only waiting can help.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let pages = Arc::clone(&pages);
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let pages = Arc::clone(&pages);
                async move {
                    let answer = spawn_blocking(move || answer(request.uri().path(), pages.as_ref())).await;
                    Ok::<_, Infallible>(answer.unwrap_or_else(|panic| failed(&panic)))
                }
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

fn answer(path: &str, pages: &dyn Pages) -> Response<Full<Bytes>> {
    let (status, page) = match pages.page(path) {
        Some(page) if page.failed => (StatusCode::SERVICE_UNAVAILABLE, page),
        Some(page) => (StatusCode::OK, page),
        None => (StatusCode::NOT_FOUND, Page { body: format!("{}\n", pages.hint()).into_bytes(), ..Page::default() }),
    };
    response(status, page)
}

fn failed(panic: &JoinError) -> Response<Full<Bytes>> {
    log::error!(error:% = panic; "a page failed");
    let body = b"this page failed: the log has the reason\n".to_vec();
    response(StatusCode::INTERNAL_SERVER_ERROR, Page { body, ..Page::default() })
}

fn response(status: StatusCode, page: Page) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(page.body)));
    *response.status_mut() = status;
    let media_type = if page.media_type.is_empty() { TEXT } else { page.media_type };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

fn probe(state: Result<(), String>) -> Page {
    let (failed, sentence) = state.map_or_else(|reason| (true, reason), |()| (false, "ok".to_owned()));
    Page { failed, body: format!("{sentence}\n").into_bytes(), ..Page::default() }
}
