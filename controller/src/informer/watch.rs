//! Guarded watches: objects from the API server update the index. An invalid object is reported and skipped, and the watch
//! continues.

mod confirmation;
mod guarded;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use futures::StreamExt;
use kube::Client;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use serde::de::DeserializeOwned;

use crate::state::cluster::Cluster;
use crate::state::index::{Indexed, key_of};
use crate::write::events::{Event, ObjectReference};
use confirmation::confirming;
use guarded::{Guarded, Malformed};

/// Page size of a list: large enough to be quick, small enough not to hold 100,000 pods at once.
const PAGE: u32 = 500;
/// Groups of kinds that a cluster may lack: our own, and those of CapacityBuffers and ProvisioningRequests.
const OPTIONAL_GROUPS: [&str; 2] = ["kerf.sh", "autoscaling.x-k8s.io"];
/// Time after which the API server ends a watch and the controller reconnects, in seconds. A reconnect confirms the view also
/// where the API server sends no bookmarks, and finds a dead connection.
pub const RENEWAL: u32 = 120;

/// Watches one kind forever.
pub async fn watch<K>(client: Client, cluster: Arc<Cluster>)
where
    K: Indexed + DeserializeOwned,
{
    let confirm = {
        let cluster = Arc::clone(&cluster);
        move || cluster.view_ages.confirm(&K::kind(&()), cluster.now())
    };
    confirm();
    let api: Api<Guarded<K>> = Api::all(confirming(client, confirm.clone()));
    let config = watcher::Config::default().page_size(PAGE).timeout(RENEWAL);
    let mut events = watcher(api, config).default_backoff().boxed();
    let mut relist: Option<BTreeSet<String>> = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => take::<K>(&cluster, event, &mut relist),
            Err(error) if is_not_installed::<K>(&error) => {
                tracing::debug!(kind = &*K::kind(&()), "the kind is not installed");
                confirm();
                cluster.change(|index| index.finish_relist::<K>(&BTreeSet::new(), cluster.now()));
            }
            Err(error) => {
                tracing::warn!(
                    kind = &*K::kind(&()),
                    error = daemon::error::chain(&error).as_str(),
                    "watch failed, retrying"
                );
            }
        }
    }
}

/// Reports whether the API server does not know this optional kind. A cluster without it works as with Karpenter, and a kind that is
/// installed later is found by the next attempt.
fn is_not_installed<K: Indexed>(error: &watcher::Error) -> bool {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status,
        _ => return false,
    };
    status.code == 404 && OPTIONAL_GROUPS.contains(&K::group(&()).as_ref())
}

fn take<K: Indexed>(cluster: &Cluster, event: watcher::Event<Guarded<K>>, relist: &mut Option<BTreeSet<String>>) {
    match event {
        watcher::Event::Init => *relist = Some(BTreeSet::new()),
        watcher::Event::InitApply(object) => {
            if let Some(seen) = relist.as_mut() {
                seen.insert(key_of(&object));
            }
            put(cluster, object, false);
        }
        watcher::Event::InitDone => {
            let seen = relist.take().unwrap_or_default();
            cluster.change(|index| index.finish_relist::<K>(&seen, cluster.now()));
        }
        watcher::Event::Apply(object) => put(cluster, object, true),
        watcher::Event::Delete(object) => {
            let key = key_of(&object);
            cluster.change(|index| index.delete::<K>(&key, cluster.now()));
        }
    }
}

/// Applies an object to the index. An invalid object leaves its last valid version in place as the best approximation.
fn put<K: Indexed + Debug>(cluster: &Cluster, object: Guarded<K>, live: bool) {
    match object.0 {
        Ok(object) => cluster.change(|index| index.apply(object, cluster.now(), live)),
        Err(Malformed { metadata, error }) => {
            let kind = K::kind(&());
            let object = ObjectReference::new(K::api_version(&()).as_ref(), kind.as_ref(), &metadata);
            object.span().in_scope(|| tracing::error!(error = error.as_str(), "ignored an invalid object"));
            cluster.notes.publish(Event::warning(
                object,
                api::reason::MALFORMED_OBJECT,
                format!("this {kind} is invalid and ignored: {error}"),
            ));
        }
    }
}

#[cfg(test)]
mod tests;
