//! State of the simulated cluster: objects as the API server would show them.

mod budgets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{Node, Pod, PodCondition};
use api::status::{Conditioned, Time};
use api::{NodeClaim, NodePool, Taint, annotation, condition, hash, label, reason, taint};
use jiff::Timestamp;
use planner::Catalogue;
use snapshot::{Input, Objects, launchable_types};

use budgets::Budgets;

/// Objects of the simulated cluster.
pub(crate) struct Cluster {
    pub(crate) now: Timestamp,
    /// All objects other than pods, Nodes and NodeClaims.
    pub(crate) objects: Arc<Objects>,
    /// Catalogues by EC2NodeClass, with the types that NodePools can launch or nodes have.
    pub(crate) catalogues: BTreeMap<String, Arc<Catalogue>>,
    pub(crate) nodes: BTreeMap<String, Arc<Node>>,
    pub(crate) claims: BTreeMap<String, Arc<NodeClaim>>,
    /// Pods by UID.
    pods: BTreeMap<String, Arc<Pod>>,
    /// UIDs of the pods of each node.
    on: BTreeMap<String, BTreeSet<String>>,
    /// UIDs of pods without a node.
    pending: BTreeSet<String>,
    budgets: Budgets,
}

impl Cluster {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self {
            now,
            objects: Arc::default(),
            catalogues: BTreeMap::new(),
            nodes: BTreeMap::new(),
            claims: BTreeMap::new(),
            pods: BTreeMap::new(),
            on: BTreeMap::new(),
            pending: BTreeSet::new(),
            budgets: Budgets::default(),
        }
    }

    /// Returns the input of a snapshot.
    pub(crate) fn input(&mut self) -> Input<'_> {
        self.budgets.count();
        Input {
            pods: self.pods.values().collect(),
            nodes: self.nodes.values().collect(),
            claims: self.claims.values().collect(),
            budgets: self.budgets.list().collect(),
            catalogues: self.catalogues.clone(),
            ..self.objects.input(self.now)
        }
    }

    /// Takes over new objects, and marks nodes whose NodePool's template has changed as drifted.
    pub(crate) fn set_objects(&mut self, objects: Arc<Objects>) {
        if self.objects.budgets != objects.budgets {
            self.budgets.replace(&objects.budgets, self.pods.iter());
        }
        let hashes = |objects: &Objects| -> BTreeMap<String, Option<String>> {
            objects.pools.iter().map(|pool| (pool_name(pool), hash::node_pool(pool).ok())).collect()
        };
        let changed = hashes(&self.objects) != hashes(&objects);
        self.objects = objects;
        if changed {
            self.mark_drifted();
        }
    }

    /// Sets the catalogues of the market. Types that no NodePool can launch would only take time.
    pub(crate) fn set_market(&mut self, market: &BTreeMap<String, Arc<Catalogue>>) {
        let label = |claim: &Arc<NodeClaim>| claim.metadata.labels.as_ref()?.get(label::INSTANCE_TYPE).cloned();
        let present: BTreeSet<String> = self.claims.values().filter_map(label).collect();
        let reduced = |(class, catalogue): (&String, &Arc<Catalogue>)| {
            let of_class = |pool: &&Arc<NodePool>| pool.spec.template.spec.node_class_ref.name == *class;
            let pools: Vec<Arc<NodePool>> = self.objects.pools.iter().filter(of_class).cloned().collect();
            let types = launchable_types(&pools, catalogue, |kind| present.contains(&kind.name));
            (class.clone(), Arc::new(types))
        };
        self.catalogues = market.iter().map(reduced).collect();
    }

    fn mark_drifted(&mut self) {
        let pools: BTreeMap<String, String> =
            self.objects.pools.iter().filter_map(|pool| Some((pool_name(pool), hash::node_pool(pool).ok()?))).collect();
        let now = self.now;
        for claim in self.claims.values_mut().filter(|claim| !claim.is_true(condition::DRIFTED)) {
            let written = |key| claim.metadata.annotations.as_ref().and_then(|all| all.get(key)).map(String::as_str);
            let ours = written(annotation::NODEPOOL_HASH_VERSION) == Some(hash::NODEPOOL_VERSION);
            let own = written(annotation::NODEPOOL_HASH).filter(|_| ours);
            let differs = own.zip(pools.get(claim.nodepool())).is_some_and(|(own, pool)| own != pool);
            if differs {
                let claim = Arc::make_mut(claim);
                claim.set(condition::DRIFTED, condition::TRUE, reason::NODEPOOL_DRIFTED, "", now);
            }
        }
    }

    /// Returns the catalogue of a NodePool.
    pub(crate) fn catalogue_of(&self, pool: &NodePool) -> Option<&Arc<Catalogue>> {
        self.catalogues.get(&pool.spec.template.spec.node_class_ref.name)
    }

    /// Returns the pod with this UID; for pods of a node, with the key that it was set with.
    pub(crate) fn pod(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.pods.get(uid)
    }

    /// Returns the UIDs of the pods on a node, in order.
    pub(crate) fn pods_on(&self, node: &str) -> Vec<String> {
        self.on.get(node).into_iter().flatten().cloned().collect()
    }

    /// Returns the UIDs of the pods without a node.
    pub(crate) fn pending(&self) -> &BTreeSet<String> {
        &self.pending
    }

    /// Adds a pod or replaces its state.
    pub(crate) fn set_pod(&mut self, uid: &str, pod: Pod) {
        let before = self.pods.get(uid).cloned();
        if let Some(before) = before.as_ref().filter(|before| before.spec.node_name != pod.spec.node_name) {
            self.leave(uid, &before.spec.node_name);
        }
        if pod.is_bound() {
            self.pending.remove(uid);
            self.on.entry(pod.spec.node_name.clone()).or_default().insert(uid.to_owned());
        } else {
            self.pending.insert(uid.to_owned());
        }
        self.budgets.update(uid, before.as_deref(), Some(&pod));
        self.pods.insert(uid.to_owned(), Arc::new(pod));
    }

    pub(crate) fn change_pod(&mut self, uid: &str, change: impl FnOnce(&mut Pod)) {
        if let Some(mut pod) = self.pods.get(uid).map(|pod| pod.as_ref().clone()) {
            change(&mut pod);
            self.set_pod(uid, pod);
        }
    }

    pub(crate) fn remove_pod(&mut self, uid: &str) {
        let Some(pod) = self.pods.remove(uid) else { return };
        self.pending.remove(uid);
        self.leave(uid, &pod.spec.node_name);
        self.budgets.update(uid, Some(&pod), None);
    }

    fn leave(&mut self, uid: &str, node: &str) {
        if let Some(uids) = self.on.get_mut(node) {
            uids.remove(uid);
        }
    }

    /// Reports whether every PodDisruptionBudget of a pod allows its eviction now.
    pub(crate) fn allows_eviction(&mut self, uid: &str) -> bool {
        self.budgets.count();
        self.pods.get(uid).is_some_and(|pod| self.budgets.of(uid).all(|budget| budget.allows_eviction(pod)))
    }

    /// Notes that a pod came to a node or left it.
    pub(crate) fn note_pod_event(&mut self, node: &str) {
        let now = self.now;
        if let Some(claim) = self.claim_of(node).and_then(|claim| self.claims.get_mut(&claim)) {
            Arc::make_mut(claim).status.get_or_insert_default().last_pod_event_time = Some(Time(now));
        }
    }

    /// Returns the name of the NodeClaim of a node.
    pub(crate) fn claim_of(&self, node: &str) -> Option<String> {
        if self.claims.contains_key(node) {
            return Some(node.to_owned());
        }
        self.claims.iter().find(|(_, claim)| node_of(claim) == node).map(|(name, _)| name.clone())
    }

    /// Returns the name of the Node of a NodeClaim.
    pub(crate) fn node_of(&self, claim: &str) -> Option<String> {
        let name = node_of(self.claims.get(claim)?);
        self.nodes.contains_key(name).then(|| name.to_owned())
    }

    /// Marks a NodeClaim and its Node as disrupted.
    pub(crate) fn mark_disrupted(&mut self, claim: &str, cause: &str, replaced_by: &str) {
        let now = self.now;
        if let Some(node) = self.node_of(claim).and_then(|node| self.nodes.get_mut(&node)) {
            Arc::make_mut(node).spec.taints.push(Taint::new(taint::DISRUPTED, taint::NO_SCHEDULE));
        }
        if let Some(claim) = self.claims.get_mut(claim).map(Arc::make_mut) {
            claim.set(condition::DISRUPTION_REASON, condition::TRUE, cause, "", now);
            if !replaced_by.is_empty() {
                let annotations = claim.metadata.annotations.get_or_insert_default();
                annotations.insert(annotation::REPLACED_BY.to_owned(), replaced_by.to_owned());
            }
        }
    }

    /// Requests the deletion of a NodeClaim and its Node, which begins the drain.
    pub(crate) fn delete_claim(&mut self, claim: &str) {
        let now = Time(self.now);
        if let Some(node) = self.node_of(claim).and_then(|node| self.nodes.get_mut(&node)) {
            Arc::make_mut(node).metadata.deletion_timestamp.get_or_insert(now.clone());
        }
        if let Some(claim) = self.claims.get_mut(claim) {
            Arc::make_mut(claim).metadata.deletion_timestamp.get_or_insert(now);
        }
    }

    /// Removes a NodeClaim with its Node, and returns the UIDs of the pods that still ran there.
    pub(crate) fn remove_claim(&mut self, claim: &str) -> Vec<String> {
        let node = self.node_of(claim);
        self.claims.remove(claim);
        let Some(node) = node else { return Vec::new() };
        self.nodes.remove(&node);
        self.on.remove(&node).into_iter().flatten().collect()
    }
}

pub(crate) fn pool_name(pool: &NodePool) -> String {
    pool.metadata.name.clone().unwrap_or_default()
}

fn node_of(claim: &NodeClaim) -> &str {
    claim.status.as_ref().map_or("", |status| status.node_name.as_str())
}

/// Sets a condition of a pod.
pub(crate) fn set_condition(pod: &mut Pod, type_: &str, holds: bool, now: Timestamp) {
    pod.status.conditions.retain(|known| known.type_ != type_);
    let refused = type_ == condition::POD_SCHEDULED && !holds;
    pod.status.conditions.push(PodCondition {
        type_: type_.to_owned(),
        status: if holds { condition::TRUE } else { condition::FALSE }.to_owned(),
        reason: if refused { reason::UNSCHEDULABLE } else { "" }.to_owned(),
        last_transition_time: Some(Time(now)),
    });
}

/// Reports whether a Node belongs to a NodePool.
pub(crate) fn is_managed(node: &Node) -> bool {
    node.label(label::NODEPOOL).is_some()
}
