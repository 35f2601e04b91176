//! A life's way to the API server: on it requests can be late, refused or the last.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use kube::client::Body;

use crate::api_server::ApiServer;

/// What lies between a life and the API server.
pub trait Way: Send + Sync + 'static {
    /// Has a request answered, if it comes through.
    fn pass(&self, server: Arc<ApiServer>, request: Request<Body>) -> impl Future<Output = Response<Body>> + Send;
}

/// Nothing.
pub struct Straight;

impl Way for Straight {
    async fn pass(&self, server: Arc<ApiServer>, request: Request<Body>) -> Response<Body> {
        server.answer(request).await
    }
}

/// A client whose requests go this way.
#[must_use]
pub fn client(server: &Arc<ApiServer>, way: Arc<impl Way>) -> kube::Client {
    let server = Arc::clone(server);
    let service = tower::service_fn(move |request| {
        let (server, way) = (Arc::clone(&server), Arc::clone(&way));
        async move { Ok::<_, Infallible>(way.pass(server, request).await) }
    });
    kube::Client::new(service, "default")
}
