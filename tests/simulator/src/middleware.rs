//! Connection of a controller run to the API server, on which requests can be late, refused or the last.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use kube::client::Body;

use crate::api_server::ApiServer;

/// Middleware between a run and the API server.
pub trait Middleware: Send + Sync + 'static {
    /// Passes a request to the server and returns the response, if the request gets through.
    fn pass(&self, server: Arc<ApiServer>, request: Request<Body>) -> impl Future<Output = Response<Body>> + Send;
}

/// Middleware without faults.
pub struct PassThrough;

impl Middleware for PassThrough {
    async fn pass(&self, server: Arc<ApiServer>, request: Request<Body>) -> Response<Body> {
        server.answer(request).await
    }
}

/// Returns a client whose requests pass through this middleware.
#[must_use]
pub fn client(server: &Arc<ApiServer>, middleware: Arc<impl Middleware>) -> kube::Client {
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request| {
        let (server, middleware) = (Arc::clone(&server), Arc::clone(&middleware));
        async move { Ok::<_, Infallible>(middleware.pass(server, request).await) }
    });
    kube::Client::new(service, "default")
}
