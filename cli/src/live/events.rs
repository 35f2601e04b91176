//! Events about one object.

use http::Request;
use serde_json::Value;

use super::kinds::EVENTS;
use super::{Reader, client, runtime, unreadable};
use crate::args::LiveCluster;
use crate::failure::Failure;

/// Returns the events about an object, which the API server keeps for an hour by default. Those of cluster-scoped objects are in namespace
/// default.
///
/// # Errors
/// Returns an error if the cluster does not respond, or if the list is forbidden; the message contains the fix.
pub fn events(cluster: &LiveCluster, kind: &str, namespace: &str, name: &str) -> Result<Vec<Value>, Failure> {
    runtime()?.block_on(async {
        let reader = Reader { client: client(cluster).await? };
        let path = format!(
            "/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.kind%3D{kind},involvedObject.name%3D{name}"
        );
        let request = Request::get(path).body(Vec::new()).map_err(Failure::internal)?;
        let list = reader.client.request::<Value>(request).await.map_err(|error| unreadable(&EVENTS, &error, &["list"]))?;
        Ok(list["items"].as_array().map(Vec::as_slice).unwrap_or_default().to_vec())
    })
}
