//! Recorder of all Nodes and Pods from the start, so that tests can check the order of events. Examples are whether the agent's
//! condition preceded the removal of the taint, and whether there were ever fewer healthy pods than the budget allows.

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

/// Version of an object and the time of its observation.
#[derive(Clone, Debug)]
pub struct Seen<K> {
    /// Time of the observation.
    pub at: Timestamp,
    /// Observed version.
    pub object: K,
    /// True for the last version of a deleted object.
    pub gone: bool,
}

/// All observed versions by name, oldest first.
#[derive(Default)]
struct Memory {
    nodes: BTreeMap<String, Vec<Seen<Node>>>,
    pods: BTreeMap<String, Vec<Seen<Pod>>>,
}

/// Recorder that runs in the background.
pub struct Observer {
    memory: Arc<Mutex<Memory>>,
    _tasks: JoinSet<()>,
}

impl Observer {
    /// Starts the watches.
    #[must_use]
    pub fn start(client: &Client) -> Self {
        let memory = Arc::new(Mutex::new(Memory::default()));
        let mut tasks = JoinSet::new();
        tasks.spawn(remember::<Node>(client.clone(), Arc::clone(&memory), |memory| &mut memory.nodes));
        tasks.spawn(remember::<Pod>(client.clone(), Arc::clone(&memory), |memory| &mut memory.pods));
        Self { memory, _tasks: tasks }
    }

    /// Returns the names of all observed nodes, including deleted ones.
    pub fn node_names(&self) -> Vec<String> {
        self.lock().nodes.keys().cloned().collect()
    }

    /// Returns the versions of a node.
    pub fn node(&self, name: &str) -> Vec<Seen<Node>> {
        self.lock().nodes.get(name).cloned().unwrap_or_default()
    }

    /// Returns every pod version observed since `start`, oldest first.
    pub fn pods_since(&self, start: Timestamp) -> Vec<Seen<Pod>> {
        let mut all: Vec<Seen<Pod>> =
            self.lock().pods.values().flatten().filter(|seen| seen.at >= start).cloned().collect();
        all.sort_by_key(|seen| seen.at);
        all
    }

    /// Returns the lowest number of pods of `app` that were Ready at the same time since `start`, including the state at
    /// `start`.
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

/// Reports whether kubelet reports the pod as Ready.
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
