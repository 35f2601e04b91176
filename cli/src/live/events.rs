//! Events about one object.

use serde_json::Value;

use super::kinds::EVENTS;
use super::{PAGE, Reader, client, runtime, unreadable};
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
        let about = format!("involvedObject.kind%3D{kind},involvedObject.name%3D{name}");
        let path = |next: &str| {
            let token = if next.is_empty() { String::new() } else { format!("&continue={next}") };
            format!("/api/v1/namespaces/{namespace}/events?limit={PAGE}&fieldSelector={about}{token}")
        };
        let events = reader.items(path).await;
        events.map(|(events, _)| events).map_err(|error| unreadable(&EVENTS, &error, &["list"]))
    })
}
