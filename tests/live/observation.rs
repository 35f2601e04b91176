//! State of the cluster by watches, with the times for the measurements. The simulated kubelets receive the same events.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use api::objects::{Node, Pod};
use api::{NodeClaim, label};
use futures::StreamExt;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::catalogue::Catalogue;
use crate::kubelets::{Kubelets, is_running};
use crate::stages::Stages;

/// State of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PodPhase {
    Waits,
    Runs,
    Leaves,
}

/// Objects of the cluster, and the times of their changes.
#[derive(Debug, Default)]
pub struct Seen {
    pods: Table<PodPhase>,
    /// Cost of each node in dollars per hour.
    nodes: Table<f64>,
    claims: Table<()>,
    /// Stages of pods, NodeClaims and Nodes.
    pub stages: Stages,
    /// Time of the newest pod.
    pub arrived: Option<Instant>,
    /// Time at which a pod last became Running.
    pub ran: Option<Instant>,
    /// Time of the first NodeClaim.
    pub claimed: Option<Instant>,
    /// Time of the last change of a node, NodeClaim or pod.
    pub changed: Option<Instant>,
    /// Cost of all nodes, with the time of each change.
    pub costs: Vec<(Instant, f64)>,
}

impl Seen {
    /// Returns the number of pods that are not terminating.
    pub fn pods(&self) -> usize {
        self.pods.rows.values().filter(|phase| **phase != PodPhase::Leaves).count()
    }

    /// Returns the number of running pods that are not terminating.
    pub fn running(&self) -> usize {
        self.pods.rows.values().filter(|phase| **phase == PodPhase::Runs).count()
    }

    /// Returns the number of terminating pods.
    pub fn leaving(&self) -> usize {
        self.pods.rows.len() - self.pods()
    }

    pub fn nodes(&self) -> usize {
        self.nodes.rows.len()
    }

    /// Returns the cost of all nodes in dollars per hour.
    pub fn cost(&self) -> f64 {
        self.nodes.rows.values().sum()
    }

    /// Returns the number of pending pods.
    pub fn waiting(&self) -> usize {
        self.pods() - self.running()
    }

    /// Returns the names of the NodeClaims.
    pub fn claims(&self) -> BTreeSet<String> {
        self.claims.rows.keys().cloned().collect()
    }

    fn pod(&mut self, event: &Event<Pod>) {
        if let Event::Apply(pod) | Event::InitApply(pod) = event {
            self.stages.pod(pod);
        }
        let phase = |pod: &Pod| match (pod.is_terminating(), is_running(pod)) {
            (true, _) => PodPhase::Leaves,
            (false, true) => PodPhase::Runs,
            (false, false) => PodPhase::Waits,
        };
        match self.pods.take(event, phase) {
            Some(PodPhase::Waits) => self.arrived = Some(self.touch()),
            Some(PodPhase::Runs) => self.ran = Some(self.touch()),
            Some(PodPhase::Leaves) => _ = self.touch(),
            None => {}
        }
    }

    fn node(&mut self, event: &Event<Node>, price: impl Fn(&Node) -> f64) {
        if let Event::Apply(node) | Event::InitApply(node) = event {
            self.stages.node(node);
        }
        if self.nodes.take(event, price).is_some() || matches!(event, Event::Delete(_)) {
            let (now, cost) = (self.touch(), self.cost());
            self.costs.push((now, cost));
        }
    }

    fn claim(&mut self, event: &Event<NodeClaim>) {
        if let Event::Apply(claim) | Event::InitApply(claim) = event {
            self.stages.claim(claim);
        }
        if self.claims.take(event, |_| ()).is_some() || matches!(event, Event::Delete(_)) {
            let now = self.touch();
            self.claimed.get_or_insert(now);
        }
    }

    fn touch(&mut self) -> Instant {
        *self.changed.insert(Instant::now())
    }
}

/// Rows by name, correct also when a watch ends and lists again.
#[derive(Debug)]
struct Table<R> {
    rows: BTreeMap<String, R>,
    listed: BTreeSet<String>,
}

impl<R> Default for Table<R> {
    fn default() -> Self {
        Self { rows: BTreeMap::new(), listed: BTreeSet::new() }
    }
}

impl<R: PartialEq + Copy> Table<R> {
    /// Applies an event; returns the row that is new or changed.
    fn take<K: ResourceExt>(&mut self, event: &Event<K>, row: impl Fn(&K) -> R) -> Option<R> {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitDone => self.rows.retain(|name, _| self.listed.contains(name)),
            Event::Delete(object) => drop(self.rows.remove(&object.name_any())),
            Event::Apply(object) | Event::InitApply(object) => {
                let (name, row) = (object.name_any(), row(object));
                self.listed.insert(name.clone());
                return (self.rows.insert(name, row) != Some(row)).then_some(row);
            }
        }
        None
    }
}

/// Watches of the cluster; they stop when dropped.
pub struct Observation {
    seen: Arc<Mutex<Seen>>,
    _tasks: JoinSet<()>,
}

impl Observation {
    /// Starts the watches and the simulated kubelets.
    pub fn open(client: &Client, catalogue: &Catalogue) -> Self {
        let (seen, mut tasks) = (Arc::<Mutex<Seen>>::default(), JoinSet::new());
        let kubelets = Kubelets::new(client.clone());
        let catalogue = catalogue.clone();
        let price =
            move |node: &Node| node.label(label::INSTANCE_TYPE).and_then(|name| catalogue.price(name)).unwrap_or(0.0);
        let (shared, of_nodes) = (Arc::clone(&seen), kubelets.clone());
        tasks.spawn(watch(Api::<Node>::all(client.clone()), move |event| {
            if let Event::Apply(node) | Event::InitApply(node) = &event {
                of_nodes.see_node(node);
            }
            lock(&shared).node(&event, &price);
        }));
        let shared = Arc::clone(&seen);
        tasks.spawn(watch(Api::<Pod>::all(client.clone()), move |event| {
            if let Event::Apply(pod) | Event::InitApply(pod) = &event {
                kubelets.see_pod(pod);
            }
            lock(&shared).pod(&event);
        }));
        let shared = Arc::clone(&seen);
        tasks.spawn(watch(Api::<NodeClaim>::all(client.clone()), move |event| lock(&shared).claim(&event)));
        Self { seen, _tasks: tasks }
    }

    /// Returns the current state.
    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }

    /// Returns a shared handle of the state.
    pub fn share(&self) -> Arc<Mutex<Seen>> {
        Arc::clone(&self.seen)
    }
}

pub fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn watch<K>(api: Api<K>, apply: impl Fn(Event<K>))
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => apply(event),
            Err(error) => log::debug!("a watch begins anew: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::ObjectMeta;

    use super::{Event, Pod, Table};

    fn pod(name: &str) -> Pod {
        Pod { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..Pod::default() }
    }

    #[test]
    fn table_take_removes_rows_that_a_new_list_omits() {
        let mut table = Table::default();
        assert_eq!(table.take(&Event::Apply(pod("a")), |_| 1), Some(1));
        assert_eq!(table.take(&Event::Apply(pod("a")), |_| 1), None, "nothing has changed");
        assert_eq!(table.take(&Event::Apply(pod("b")), |_| 2), Some(2));
        for event in [Event::Init, Event::InitApply(pod("b")), Event::InitDone] {
            assert_eq!(table.take(&event, |_| 2), None);
        }
        assert_eq!(table.rows.into_iter().collect::<Vec<_>>(), [("b".to_owned(), 2)]);
    }
}
