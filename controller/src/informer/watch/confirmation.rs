//! Confirmations of a watch, seen on the wire: every event, bookmark and successful reconnect.
//!
//! kube's watcher passes on objects only. It hides bookmarks and reconnects, which are the only traffic of a kind that does not
//! change.

use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;

/// Returns a client that calls `confirm` for each frame of a watch and at the start of its response.
pub fn confirming(client: Client, confirm: impl Fn() + Clone + Send + Sync + 'static) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, confirm, watches) = (client.clone(), confirm.clone(), is_watch(&request));
        async move {
            let response = client.send(request).await?;
            let confirms = watches && response.status().is_success();
            if confirms {
                confirm();
            }
            let observed = response.map(|body| {
                body.map_frame(move |frame| {
                    if confirms {
                        confirm();
                    }
                    frame
                })
            });
            Ok::<_, kube::Error>(observed)
        }
    });
    Client::new(service, namespace)
}

fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"))
}
