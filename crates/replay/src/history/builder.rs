//! Collection of a history from recorded objects, one after another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{Node, Pod, PodDisruptionBudgetStatus};
use api::status::Conditioned;
use api::{NodeClaim, NodePool, condition, label, reason, status};
use jiff::{SignedDuration, Timestamp};
use snapshot::Objects;

use super::{Change, History, RecordedNode, RecordedPod};

/// History so far.
#[derive(Debug, Default)]
pub struct HistoryBuilder {
    begin: Option<Timestamp>,
    at: Timestamp,
    /// Pods by UID.
    pods: BTreeMap<String, RecordedPod>,
    /// UID of the present pod of each namespace and name.
    uids: BTreeMap<(String, String), String>,
    /// UIDs of pods that had a scheduling gate when they were last seen.
    gated: BTreeSet<String>,
    /// Nodes by the name of their NodeClaim.
    nodes: BTreeMap<String, RecordedNode>,
    /// NodeClaim of each Node that has one.
    claims_of: BTreeMap<String, String>,
    /// First state of Nodes with a NodePool.
    first_nodes: BTreeMap<String, Arc<Node>>,
    objects: Objects,
    /// True if `objects` has changed since its last entry in `changes`.
    changed: bool,
    changes: Vec<(Timestamp, Change)>,
}

impl HistoryBuilder {
    /// Takes over the state of objects at a time. Times must not decrease; the first one is the begin of the recording.
    pub fn set(&mut self, at: Timestamp, mut objects: Objects) {
        self.proceed(at);
        for pod in std::mem::take(&mut objects.pods) {
            self.set_pod(pod);
        }
        for node in std::mem::take(&mut objects.nodes) {
            self.set_node(node);
        }
        for claim in std::mem::take(&mut objects.claims) {
            self.set_claim(&claim);
        }
        self.changed |= self.objects.merge(lasting(objects));
    }

    /// Takes over the deletion of an object.
    pub fn remove(&mut self, at: Timestamp, kind: &str, namespace: &str, name: &str) {
        self.proceed(at);
        match kind {
            "Pod" => self.remove_pod(namespace, name),
            "Node" => self.remove_node(name),
            "NodeClaim" => {
                if let Some(node) = self.nodes.get_mut(name) {
                    node.ended.get_or_insert(at);
                }
            }
            kind => self.changed |= self.objects.remove(kind, namespace, name),
        }
    }

    /// Returns the history until a time.
    #[must_use]
    pub fn finish(mut self, end: Timestamp) -> History {
        self.proceed(end.max(self.at));
        self.enter_objects();
        let mut pods: Vec<RecordedPod> = self.pods.into_values().collect();
        pods.sort_by(|one, other| (one.created, &one.pod.metadata.uid).cmp(&(other.created, &other.pod.metadata.uid)));
        let mut nodes: Vec<RecordedNode> = self.nodes.into_values().collect();
        for (claim, node) in nodes.iter_mut().filter_map(|recorded| recorded.at_begin.as_mut()) {
            *node = claim.status.as_ref().and_then(|status| self.first_nodes.get(&status.node_name)).cloned();
        }
        nodes.sort_by(|one, other| (one.created, &one.claim).cmp(&(other.created, &other.claim)));
        let begin = self.begin.unwrap_or(end);
        History { begin, end: self.at.max(begin), pods, nodes, changes: self.changes }
    }

    /// Moves on to a time. The state of the other objects at one time is one change.
    fn proceed(&mut self, at: Timestamp) {
        self.begin.get_or_insert(at);
        if at > self.at {
            self.enter_objects();
            self.at = at;
        }
    }

    fn enter_objects(&mut self) {
        if std::mem::take(&mut self.changed) {
            self.changes.push((self.at, Change::Objects(Arc::new(self.objects.clone()))));
        }
    }

    fn is_begin(&self) -> bool {
        self.begin == Some(self.at)
    }

    fn set_pod(&mut self, pod: Arc<Pod>) {
        if pod.is_daemon() || pod.is_static() {
            self.changes.push((self.at, Change::NodePod(pod)));
            return;
        }
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        if !pod.spec.scheduling_gates.is_empty() {
            self.gated.insert(uid);
            return;
        }
        let name = (pod.namespace().to_owned(), pod.name().to_owned());
        if let Some(before) = self.uids.insert(name, uid.clone()).filter(|before| *before != uid) {
            self.end_pod(&before);
        }
        let known = self.pods.contains_key(&uid);
        if !known && (pod.is_terminal() || pod.is_terminating()) && self.is_begin() {
            return;
        }
        let created = pod.metadata.creation_timestamp.as_ref().map_or(self.at, |at| at.0);
        let created = if self.gated.remove(&uid) { self.at } else { created };
        let facts = self.pods.entry(uid).or_insert_with(|| RecordedPod::new(&pod, created));
        facts.update(&pod, self.at);
    }

    fn remove_pod(&mut self, namespace: &str, name: &str) {
        match self.uids.remove(&(namespace.to_owned(), name.to_owned())) {
            Some(uid) => self.end_pod(&uid),
            None => self.changes.push((self.at, Change::NodePodGone(format!("{namespace}/{name}")))),
        }
    }

    fn end_pod(&mut self, uid: &str) {
        if let Some(facts) = self.pods.get_mut(uid) {
            facts.leaves.get_or_insert(self.at);
            facts.gone.get_or_insert(self.at);
        }
    }

    fn set_node(&mut self, node: Arc<Node>) {
        if node.label(label::NODEPOOL).is_none() {
            self.changes.push((self.at, Change::Node(node)));
            return;
        }
        if let Some(own) = self.claims_of.get(node.name()).and_then(|claim| self.nodes.get_mut(claim))
            && node.interruption().is_some()
        {
            own.interrupted.get_or_insert(self.at);
        }
        if self.is_begin() {
            self.first_nodes.insert(node.name().to_owned(), node);
        }
    }

    fn remove_node(&mut self, name: &str) {
        if !self.claims_of.contains_key(name) && !self.first_nodes.contains_key(name) {
            self.changes.push((self.at, Change::NodeGone(name.to_owned())));
        }
    }

    fn set_claim(&mut self, claim: &Arc<NodeClaim>) {
        let name = claim.metadata.name.clone().unwrap_or_default();
        let (at, is_begin) = (self.at, self.is_begin());
        let node = claim.status.as_ref().map(|status| status.node_name.clone()).filter(|node| !node.is_empty());
        self.claims_of.extend(node.map(|node| (node, name.clone())));
        let facts = self.nodes.entry(name).or_insert_with(|| RecordedNode::new(claim, at));
        if is_begin {
            facts.at_begin = Some((Arc::clone(claim), None));
        }
        facts.update(claim, at);
    }
}

impl RecordedPod {
    fn new(pod: &Arc<Pod>, created: Timestamp) -> Self {
        Self {
            pod: Arc::clone(pod),
            created,
            bound: None,
            node: String::new(),
            ready: None,
            leaves: None,
            gone: None,
            succeeded: false,
            evicted: false,
        }
    }

    fn update(&mut self, pod: &Pod, at: Timestamp) {
        let since = |type_: &str| {
            let found = pod.condition(type_).filter(|found| found.status == condition::TRUE)?;
            Some(found.last_transition_time.as_ref().map_or(at, |time| time.0))
        };
        if pod.is_bound() {
            self.node.clone_from(&pod.spec.node_name);
            self.bound = self.bound.or_else(|| since(condition::POD_SCHEDULED)).or(Some(at));
        }
        self.ready = self.ready.or_else(|| since(condition::READY));
        self.succeeded |= pod.status.phase == "Succeeded";
        let target = pod.condition(condition::DISRUPTION_TARGET);
        self.evicted |= target
            .is_some_and(|found| found.status == condition::TRUE && found.reason == reason::EVICTION_BY_EVICTION_API);
        let requested = pod.metadata.deletion_timestamp.as_ref().map(|deleted| {
            let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
            (deleted.0 - SignedDuration::from_secs(grace)).min(at)
        });
        self.leaves = self.leaves.or(requested).or(pod.is_terminal().then_some(at));
    }
}

impl RecordedNode {
    fn new(claim: &NodeClaim, at: Timestamp) -> Self {
        Self {
            claim: claim.metadata.name.clone().unwrap_or_default(),
            labels: BTreeMap::new(),
            class: claim.spec.node_class_ref.name.clone(),
            node: String::new(),
            created: claim.metadata.creation_timestamp.as_ref().map_or(at, |created| created.0),
            launched: None,
            initialized: None,
            interrupted: None,
            disrupted: None,
            ended: None,
            at_begin: None,
        }
    }

    fn update(&mut self, claim: &NodeClaim, at: Timestamp) {
        let found = |type_: &str| status::find(claim.conditions(), type_).filter(|found| found.is_true());
        let since = |type_: &str| found(type_).map(|found| found.last_transition_time.0);
        self.labels = claim.metadata.labels.clone().unwrap_or_default();
        let node = claim.status.as_ref().map(|status| &status.node_name).filter(|node| !node.is_empty());
        node.into_iter().for_each(|node| self.node.clone_from(node));
        self.launched = self.launched.or_else(|| since(condition::LAUNCHED));
        self.initialized = self.initialized.or_else(|| since(condition::INITIALIZED));
        self.ended = self.ended.or_else(|| since(condition::INSTANCE_TERMINATING).map(|time| time.min(at)));
        if self.disrupted.is_none() {
            self.disrupted = found(condition::DISRUPTION_REASON).map(|found| found.reason.clone());
        }
    }
}

/// Returns the objects without the parts of their status that follow from other objects.
fn lasting(mut objects: Objects) -> Objects {
    objects.usages.clear();
    for pool in &mut objects.pools {
        let counts = |status: &api::NodePoolStatus| !status.resources.is_empty() || status.nodes != 0;
        if pool.status.as_ref().is_some_and(counts) {
            without_counts(Arc::make_mut(pool));
        }
    }
    for budget in &mut objects.budgets {
        Arc::make_mut(budget).status = PodDisruptionBudgetStatus::default();
    }
    objects
}

fn without_counts(pool: &mut NodePool) {
    if let Some(status) = &mut pool.status {
        (status.resources, status.nodes) = (BTreeMap::new(), 0);
    }
}
