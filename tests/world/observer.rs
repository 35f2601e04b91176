//! Watches the cluster from the first moment and remembers it, so that a story can speak of order: which came first,
//! the agent's word or the taint's end; were there ever fewer healthy pods than the budget allows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::objects::{Node, Pod};
use futures::StreamExt;
use jiff::Timestamp;
use kube::api::Api;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

/// One version of an object and when the observer saw it.
#[derive(Clone, Debug)]
pub struct Seen<K> {
    /// When.
    pub at: Timestamp,
    /// The version.
    pub object: K,
    /// Whether it was the last one: the object is gone.
    pub gone: bool,
}

/// Everything seen, oldest first, by name.
#[derive(Default)]
struct Memory {
    nodes: BTreeMap<String, Vec<Seen<Node>>>,
    pods: BTreeMap<String, Vec<Seen<Pod>>>,
}

/// A memory that fills by itself.
pub struct Observer {
    memory: Arc<Mutex<Memory>>,
    _tasks: JoinSet<()>,
}

impl Observer {
    /// Starts to watch.
    #[must_use]
    pub fn start(client: &Client) -> Self {
        let memory = Arc::new(Mutex::new(Memory::default()));
        let mut tasks = JoinSet::new();
        tasks.spawn(remember::<Node>(client.clone(), Arc::clone(&memory), |memory| &mut memory.nodes));
        tasks.spawn(remember::<Pod>(client.clone(), Arc::clone(&memory), |memory| &mut memory.pods));
        Self { memory, _tasks: tasks }
    }

    /// Every node that was ever seen.
    pub fn node_names(&self) -> Vec<String> {
        self.lock().nodes.keys().cloned().collect()
    }

    /// A node's versions.
    pub fn node(&self, name: &str) -> Vec<Seen<Node>> {
        self.lock().nodes.get(name).cloned().unwrap_or_default()
    }

    /// Every pod version seen since `start`, oldest first.
    pub fn pods_since(&self, start: Timestamp) -> Vec<Seen<Pod>> {
        let mut all: Vec<Seen<Pod>> =
            self.lock().pods.values().flatten().filter(|seen| seen.at >= start).cloned().collect();
        all.sort_by_key(|seen| seen.at);
        all
    }

    /// The fewest pods of `app` that were Ready at once at any moment since `start`, given what was true at `start`.
    pub fn fewest_ready(&self, app: &str, start: Timestamp) -> usize {
        let memory = self.lock();
        let mut changes: Vec<(Timestamp, String, bool)> = Vec::new();
        for (name, versions) in &memory.pods {
            for seen in versions.iter().filter(|seen| seen.object.labels().get("app").is_some_and(|label| label == app))
            {
                let ready = !seen.gone && !seen.object.is_terminating() && is_ready(&seen.object);
                changes.push((seen.at, name.clone(), ready));
            }
        }
        changes.sort();
        let mut ready: BTreeMap<String, bool> = BTreeMap::new();
        let mut fewest = usize::MAX;
        for (at, name, now_ready) in changes {
            if at >= start {
                fewest = fewest.min(ready.values().filter(|ready| **ready).count());
            }
            ready.insert(name, now_ready);
        }
        fewest.min(ready.values().filter(|ready| **ready).count())
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether kubelet reports the pod Ready.
pub fn is_ready(pod: &Pod) -> bool {
    pod.condition(api::condition::READY).is_some_and(|found| found.status == api::condition::TRUE)
}

async fn remember<K>(
    client: Client,
    memory: Arc<Mutex<Memory>>,
    table: fn(&mut Memory) -> &mut BTreeMap<String, Vec<Seen<K>>>,
) where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug + Send + 'static,
{
    let mut events = watcher(Api::<K>::all(client), watcher::Config::default()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        let (object, gone) = match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => (object, false),
            Ok(watcher::Event::Delete(object)) => (object, true),
            Ok(watcher::Event::Init | watcher::Event::InitDone) | Err(_) => continue,
        };
        let seen = Seen { at: Timestamp::now(), gone, object };
        let name = seen.object.name_any();
        table(&mut memory.lock().unwrap_or_else(PoisonError::into_inner)).entry(name).or_default().push(seen);
    }
}
