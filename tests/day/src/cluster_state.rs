//! State of the simulated cluster as the API server and EC2 show it, for the checks. The state is rebuilt from events and has no
//! behaviour of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{Node, NodeReport, Pod};
use api::status::Conditioned;
use api::{NodeClaim, condition};
use planner::Size;
use simulator::surroundings::{allocated, gpus, ordinal, requested};

use crate::app::{APP, App};
use crate::clock::Moment;
use crate::false_nodes::SECOND_NODE;
use crate::market::{Instance, Market};

/// Pod with the moments at which its state changed.
#[derive(Clone, Debug)]
pub struct Running {
    /// Pod as the API server shows it.
    pub object: Arc<Pod>,
    /// Name of its workload.
    pub app: String,
    /// Number of the pod in its workload. The replacement of a pod takes over the number.
    pub ordinal: usize,
    /// Node that the pod is bound to.
    pub node: Option<String>,
    /// Moment since which the pod is ready.
    pub ready: Option<Moment>,
    /// Moment of its creation.
    pub created: Moment,
    /// Moment of the request to end the pod.
    pub ending: Option<Moment>,
    /// Current requests of the pod.
    pub asks: Size,
    /// Amounts that kubelet has allocated to the pod.
    pub kept: Size,
    /// Number of GPUs of the pod.
    pub gpus: i64,
}

impl Running {
    /// Returns the amounts that kube-scheduler counts for the pod on its node.
    #[must_use]
    pub fn takes(&self) -> Size {
        self.asks.max(self.kept)
    }
}

/// Simulated cluster and its EC2 account.
pub struct ClusterState {
    /// Current moment.
    pub now: Moment,
    /// Simulated EC2.
    pub market: Market,
    /// Workloads by name.
    pub apps: BTreeMap<String, App>,
    /// Pods by name.
    pub pods: BTreeMap<String, Running>,
    /// Names of pods by the node that they are bound to.
    on: BTreeMap<String, BTreeSet<String>>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Arc<Node>>,
    /// NodeClaims by name.
    pub claims: BTreeMap<String, Arc<NodeClaim>>,
    /// Usage reports of the agents, by node.
    pub reports: BTreeMap<String, Arc<NodeReport>>,
    /// Nodes that wrote false objects, now or before. Names of nodes are not used again.
    pub false_nodes: BTreeSet<String>,
    /// Cost of a node's volumes, in micro-dollars per hour.
    pub node_extras: i64,
    /// Number of accepted evictions.
    pub evicted: usize,
    /// Number of NodeClaims that were removed before their launch, for lack of capacity.
    pub refusals: usize,
    /// Moment of the last unplanned change: an object was created, removed, failed or got another specification. The moment
    /// lies in the future while offerings are unavailable.
    pub changed: Moment,
}

impl ClusterState {
    /// Creates a cluster without nodes and pods.
    #[must_use]
    pub fn new(now: Moment, market: Market) -> Self {
        Self {
            now,
            market,
            apps: BTreeMap::new(),
            pods: BTreeMap::new(),
            on: BTreeMap::new(),
            nodes: BTreeMap::new(),
            claims: BTreeMap::new(),
            reports: BTreeMap::new(),
            false_nodes: BTreeSet::new(),
            node_extras: 0,
            evicted: 0,
            refusals: 0,
            changed: now,
        }
    }

    /// Takes over the state of a pod, or its removal.
    pub fn see_pod(&mut self, pod: &Arc<Pod>, gone: bool) {
        if gone {
            self.lose_pod(pod.name());
            return;
        }
        let now = self.now;
        let known = self.pods.get(pod.name());
        let node = pod.is_bound().then(|| pod.spec.node_name.clone());
        if let Some(node) = node.as_ref().filter(|_| known.is_none_or(|known| known.node.is_none())) {
            self.on.entry(node.clone()).or_default().insert(pod.name().to_owned());
        }
        let asks = requested(pod);
        let seen = Running {
            object: Arc::clone(pod),
            app: pod.metadata.labels.as_ref().and_then(|all| all.get(APP)).cloned().unwrap_or_default(),
            ordinal: ordinal(pod).unwrap_or_default(),
            node,
            ready: pod.is_ready().then(|| known.and_then(|known| known.ready).unwrap_or(now)),
            created: known.map_or(now, |known| known.created),
            ending: pod.is_terminating().then(|| known.and_then(|known| known.ending).unwrap_or(now)),
            asks,
            kept: allocated(pod).unwrap_or(asks),
            gpus: gpus(pod),
        };
        self.pods.insert(pod.name().to_owned(), seen);
    }

    fn lose_pod(&mut self, name: &str) {
        let Some(pod) = self.pods.remove(name) else { return };
        if let Some(pods) = pod.node.as_ref().and_then(|node| self.on.get_mut(node)) {
            pods.remove(name);
        }
        let app = self.apps.get_mut(&pod.app).filter(|app| app.lasts.is_some() && pod.ending.is_none());
        if let Some(app) = app.filter(|_| pod.node.as_ref().is_some_and(|node| self.nodes.contains_key(node))) {
            // A pod of a Job has completed.
            app.wanted = app.wanted.saturating_sub(1);
            self.changed = self.changed.max(self.now);
        }
    }

    /// Takes over the state of a Node, or its removal.
    pub fn see_node(&mut self, node: &Arc<Node>, gone: bool) {
        if gone {
            self.nodes.remove(node.name());
            self.reports.remove(node.name());
        } else {
            self.nodes.insert(node.name().to_owned(), Arc::clone(node));
        }
    }

    /// Takes over the state of a NodeClaim, or its removal.
    pub fn see_claim(&mut self, claim: &Arc<NodeClaim>, gone: bool) {
        let name = claim.metadata.name.clone().unwrap_or_default();
        if !gone {
            claim.provider_id().into_iter().for_each(|id| self.market.belongs(id, &name));
            self.claims.insert(name, Arc::clone(claim));
            return;
        }
        self.claims.remove(&name);
        self.refusals += usize::from(!claim.is_true(condition::LAUNCHED));
        if !claim.is_true(condition::REGISTERED) {
            self.changed = self.changed.max(self.now);
        }
    }

    /// Returns the pods on a node that have not ended.
    pub fn pods_on<'a>(&'a self, node: &str) -> impl Iterator<Item = (&'a String, &'a Running)> {
        self.on.get(node).into_iter().flatten().filter_map(|name| self.pods.get_key_value(name))
    }

    /// Returns the number of pods of a workload that are ready and not ending. Pods of nodes that write false objects count,
    /// because these nodes may claim anything about them.
    #[must_use]
    pub fn healthy(&self, app: &str) -> usize {
        let own = self.pods.values().filter(|pod| pod.app == app && pod.ending.is_none());
        own.filter(|pod| pod.ready.is_some() || self.is_on_false_node(pod)).count()
    }

    /// Reports whether a Node has written false objects, or is the second Node of such a node.
    #[must_use]
    pub fn is_false(&self, node: &str) -> bool {
        let second = |node: &str| node.strip_prefix(SECOND_NODE).is_some_and(|first| self.false_nodes.contains(first));
        self.false_nodes.contains(node) || second(node)
    }

    /// Reports whether a pod is on a node that has written false objects.
    #[must_use]
    pub fn is_on_false_node(&self, pod: &Running) -> bool {
        pod.node.as_deref().is_some_and(|node| self.is_false(node))
    }

    /// Reports whether the node of a NodeClaim has written false objects.
    #[must_use]
    pub fn has_false_node(&self, claim: &str) -> bool {
        self.market.node_of(claim).is_some_and(|node| self.is_false(node))
    }

    /// Returns the instance of a NodeClaim.
    #[must_use]
    pub fn instance_of(&self, claim: &str) -> Option<&Instance> {
        self.market.of_claim(claim)
    }
}
