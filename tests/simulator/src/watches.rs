//! Watches of one controller run: every event of the API server changes its index. The watch of a kind can stop while its
//! connection stays open: no event and no bookmark arrives. Later it continues, or it begins again with a list.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use api::objects::{
    CSINode, DaemonSet, Deployment, LimitRange, Namespace, Node, NodeReport, PersistentVolume, PersistentVolumeClaim,
    Pod, PodDisruptionBudget, PodTemplate, PriorityClass, ReplicaSet, RuntimeClass, StatefulSet, StorageClass,
    VolumeAttachment,
};
use api::{
    CapacityBuffer, Commitment, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, ProvisioningRequest, SpendPolicy,
};
use controller::reconcile::work::Triggers;
use controller::state::cluster::Cluster;
use controller::state::index::{Index, Indexed, key_of};
use jiff::Timestamp;
use serde::de::DeserializeOwned;

use crate::api_server::{ApiServer, BUDGETS, CLAIMS, Change, Event, NODES, PODS, POOLS, USAGES};
use crate::clock::of_tokio;

/// Plurals of the watched kinds that the server has.
pub const WATCHED: [&str; 7] = [PODS, NODES, CLAIMS, POOLS, BUDGETS, USAGES, "ec2nodeclasses"];
/// Interval of bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// Watches of one run.
pub struct Watches {
    cluster: Arc<Cluster>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    stopped: BTreeMap<String, Stopped>,
    /// Version of the last list of each kind; older events are part of the list.
    listed: BTreeMap<String, u64>,
    /// True if events and bookmarks confirm the view of their kind.
    confirms: bool,
    /// True if also stopped watches confirm, which the API server never does.
    false_bookmarks: bool,
}

/// Watch that delivers nothing.
struct Stopped {
    /// Number of causes.
    causes: usize,
    since: Timestamp,
    held: Vec<Event>,
}

impl Watches {
    pub(crate) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster, state: Mutex::default() }
    }

    /// Stops the watch of a kind, given by its plural. Each stop needs its own end.
    pub fn stop(&self, plural: &str) {
        let stopped = || Stopped { causes: 0, since: of_tokio(), held: Vec::new() };
        self.state().stopped.entry(plural.to_owned()).or_insert_with(stopped).causes += 1;
    }

    /// Continues the watch of a kind: the events since its stop arrive in order.
    pub fn resume(&self, plural: &str) {
        if let Some(stopped) = self.end(plural) {
            stopped.held.iter().for_each(|event| self.deliver(event));
        }
    }

    /// Begins the watch of a kind again with a list, as after the end of its connection.
    pub fn relist(&self, plural: &str, server: &ApiServer) {
        if self.end(plural).is_none() {
            return;
        }
        let (events, version) = server.list(plural);
        self.state().listed.insert(plural.to_owned(), version);
        relist(&self.cluster, plural, &events);
        self.confirm(plural);
    }

    /// Returns the kinds whose watch has stopped, each with the time since when.
    #[must_use]
    pub fn stopped(&self) -> Vec<(String, Timestamp)> {
        self.state().stopped.iter().map(|(plural, stopped)| (plural.clone(), stopped.since)).collect()
    }

    pub(crate) fn take(&self, event: Event) {
        let mut state = self.state();
        if let Some(stopped) = state.stopped.get_mut(&event.plural) {
            stopped.held.push(event);
            return;
        }
        if state.listed.get(&event.plural).is_some_and(|listed| version(&event) <= *listed) {
            return;
        }
        drop(state);
        self.deliver(&event);
    }

    /// Lets events and bookmarks confirm the view of their kinds from now on. With `false_bookmarks`, stopped watches confirm too.
    pub(crate) async fn confirm_for_ever(self: Arc<Self>, false_bookmarks: bool) {
        (self.state().confirms, self.state().false_bookmarks) = (true, false_bookmarks);
        loop {
            WATCHED.into_iter().for_each(|plural| self.confirm(plural));
            tokio::time::sleep(BOOKMARKS).await;
        }
    }

    /// Ends one stop of a kind. Returns the stopped watch if nothing else stops it.
    fn end(&self, plural: &str) -> Option<Stopped> {
        let mut state = self.state();
        let stopped = state.stopped.get_mut(plural)?;
        stopped.causes -= 1;
        if stopped.causes > 0 { None } else { state.stopped.remove(plural) }
    }

    fn deliver(&self, event: &Event) {
        apply(&self.cluster, event, true);
        self.confirm(&event.plural);
    }

    fn confirm(&self, plural: &str) {
        let state = self.state();
        let is_confirmed = state.confirms && (state.false_bookmarks || !state.stopped.contains_key(plural));
        drop(state);
        if is_confirmed {
            self.cluster.view_ages.confirm(kind(plural), self.cluster.now());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

fn version(event: &Event) -> u64 {
    event.object.value()["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn kind(plural: &str) -> &'static str {
    match plural {
        PODS => "Pod",
        NODES => "Node",
        CLAIMS => "NodeClaim",
        POOLS => "NodePool",
        BUDGETS => "PodDisruptionBudget",
        USAGES => "NodeUsage",
        "ec2nodeclasses" => "EC2NodeClass",
        "volumeattachments" => "VolumeAttachment",
        other => panic!("no watch for {other}"),
    }
}

/// Marks every kind as synced. The kinds that the server does not have are empty.
pub(crate) fn complete(index: &mut Index) -> Triggers {
    index.do_without::<NodeClaim>();
    index.do_without::<Pod>();
    index.do_without::<Node>();
    index.do_without::<NodePool>();
    index.do_without::<EC2NodeClass>();
    index.do_without::<DaemonSet>();
    index.do_without::<PodDisruptionBudget>();
    index.do_without::<VolumeAttachment>();
    index.do_without::<PersistentVolumeClaim>();
    index.do_without::<PersistentVolume>();
    index.do_without::<StorageClass>();
    index.do_without::<CSINode>();
    index.do_without::<Namespace>();
    index.do_without::<LimitRange>();
    index.do_without::<RuntimeClass>();
    index.do_without::<PriorityClass>();
    index.do_without::<NodeReport>();
    index.do_without::<NodeOverlay>();
    index.do_without::<SpendPolicy>();
    index.do_without::<Commitment>();
    index.do_without::<ProvisioningRequest>();
    index.do_without::<CapacityBuffer>();
    index.do_without::<PodTemplate>();
    index.do_without::<Deployment>();
    index.do_without::<ReplicaSet>();
    index.do_without::<StatefulSet>();
    Triggers::default()
}

fn relist(cluster: &Cluster, plural: &str, events: &[Event]) {
    match plural {
        CLAIMS => list::<NodeClaim>(cluster, events),
        NODES => list::<Node>(cluster, events),
        PODS => list::<Pod>(cluster, events),
        POOLS => list::<NodePool>(cluster, events),
        "ec2nodeclasses" => list::<EC2NodeClass>(cluster, events),
        BUDGETS => list::<PodDisruptionBudget>(cluster, events),
        USAGES => list::<NodeReport>(cluster, events),
        other => panic!("no list of {other}"),
    }
}

fn list<K: Indexed + DeserializeOwned + Clone + Sync>(cluster: &Cluster, events: &[Event]) {
    events.iter().for_each(|event| take::<K>(cluster, event, false));
    let seen: BTreeSet<_> = events.iter().map(|event| key_of(event.object.typed::<K>().as_ref())).collect();
    cluster.change(|index| index.finish_relist::<K>(&seen, cluster.now()));
}

pub(crate) fn apply(cluster: &Cluster, event: &Event, live: bool) {
    match event.plural.as_str() {
        "nodeclaims" => take::<NodeClaim>(cluster, event, live),
        "nodes" => take::<Node>(cluster, event, live),
        "pods" => take::<Pod>(cluster, event, live),
        "nodepools" => take::<NodePool>(cluster, event, live),
        "ec2nodeclasses" => take::<EC2NodeClass>(cluster, event, live),
        "poddisruptionbudgets" => take::<PodDisruptionBudget>(cluster, event, live),
        "volumeattachments" => take::<VolumeAttachment>(cluster, event, live),
        "nodeusages" => take::<NodeReport>(cluster, event, live),
        other => panic!("no watch for {other}"),
    }
}

fn take<K: Indexed + DeserializeOwned + Clone + Sync>(cluster: &Cluster, event: &Event, live: bool) {
    let object = event.object.typed::<K>();
    let now = cluster.now();
    cluster.change(|index| match event.change {
        Change::Removed => index.delete::<K>(&key_of(object.as_ref()), now),
        Change::Stored => index.apply(K::clone(&object), now, live),
        Change::Leaving { .. } => Triggers::default(),
    });
}
