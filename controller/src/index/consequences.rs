//! What a change of each kind calls for. A rule stands at the kind that changed.

use std::collections::BTreeSet;

use api::objects::{DaemonSet, Node, Pod, PodDisruptionBudget};
use api::status::Conditioned;
use api::{EC2NodeClass, NodeClaim, NodePool, condition, label};
use jiff::Timestamp;
use kube::Resource;

use super::{Index, Table, key_of, launch_token};
use crate::work::{Consequences, Work};

/// A kind that the index keeps.
pub trait Kept: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static {
    /// Its table.
    fn table(index: &Index) -> &Table<Self>;
    /// Its table, to change it.
    fn table_mut(index: &mut Index) -> &mut Table<Self>;
    /// Keeps what is derived from the kind's objects true. Most kinds have nothing derived.
    fn changed(_: &mut Index, _before: Option<&Self>, _after: Option<&Self>, _now: Timestamp, _live: bool) {}
    /// What the change calls for.
    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Consequences;
}

impl Kept for Pod {
    fn table(index: &Index) -> &Table<Self> {
        &index.pods
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.pods
    }

    fn changed(index: &mut Index, before: Option<&Self>, after: Option<&Self>, now: Timestamp, live: bool) {
        if let Some((pod, node)) = before.and_then(|pod| Some((pod, node_name(pod)?))) {
            remove_from(index, node, &key_of(pod));
        }
        if let Some((pod, node)) = after.and_then(|pod| Some((pod, node_name(pod)?))) {
            index.pods_by_node.entry(node.to_owned()).or_default().insert(key_of(pod));
        }
        if live && let Some(node) = event_node(before, after) {
            index.pod_events.insert(node.to_owned(), now);
        }
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Consequences {
        let mut all = Consequences::default();
        if let Some(pod) = after.filter(|pod| pod.is_unschedulable()) {
            all.plan.push(pod.metadata.uid.clone().unwrap_or_default());
        }
        let nodes: BTreeSet<&str> = [before, after].into_iter().flatten().filter_map(node_name).collect();
        for node in nodes.into_iter().filter_map(|name| index.nodes.get(name)) {
            if node.metadata.deletion_timestamp.is_some() {
                all.work.push(Work::Node(key_of(node.as_ref())));
            }
            if event_node(before, after).is_some() {
                all.work.extend(index.claim_of(node).map(|claim| Work::Claim(key_of(claim.as_ref()))));
            }
        }
        all
    }
}

fn node_name(pod: &Pod) -> Option<&str> {
    Some(pod.spec.node_name.as_str()).filter(|name| !name.is_empty())
}

fn remove_from(index: &mut Index, node: &str, pod: &str) {
    if let Some(pods) = index.pods_by_node.get_mut(node) {
        pods.remove(pod);
        if pods.is_empty() {
            index.pods_by_node.remove(node);
        }
    }
}

/// The node on which something happened that matters to consolidation: a pod (of no DaemonSet) was bound,
/// ended, began to end or went away.
fn event_node<'a>(before: Option<&'a Pod>, after: Option<&'a Pod>) -> Option<&'a str> {
    let pod = after.or(before)?;
    let node = node_name(pod)?;
    let state = |pod: &Pod| (pod.is_bound(), pod.is_terminal(), pod.is_terminating());
    let happened = before.map(state) != after.map(state);
    (happened && !pod.is_daemon()).then_some(node)
}

impl Kept for Node {
    fn table(index: &Index) -> &Table<Self> {
        &index.nodes
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.nodes
    }

    fn changed(index: &mut Index, before: Option<&Self>, after: Option<&Self>, _: Timestamp, _: bool) {
        if let (Some(node), None) = (before, after) {
            index.pod_events.remove(&key_of(node));
        }
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Consequences {
        let mut all = Consequences::default();
        for node in [before, after].into_iter().flatten() {
            all.work.push(Work::Node(key_of(node)));
            all.work.extend(index.claim_of(node).map(|claim| Work::Claim(key_of(claim.as_ref()))));
        }
        let leaving = |node: &Node| node.metadata.deletion_timestamp.is_some() || is_interrupted(node);
        if after.is_some_and(leaving) && !before.is_some_and(leaving) {
            all.plan.extend(after.map(|node| format!("node/{}", key_of(node))));
        }
        all
    }
}

fn is_interrupted(node: &Node) -> bool {
    node.condition(condition::INTERRUPTED).is_some_and(|found| found.status == condition::TRUE)
}

impl Kept for NodeClaim {
    fn table(index: &Index) -> &Table<Self> {
        &index.claims
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.claims
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Consequences {
        let mut all = Consequences::default();
        for claim in [before, after].into_iter().flatten() {
            all.work.push(Work::Claim(key_of(claim)));
            let class = index.classes.get(&claim.spec.node_class_ref.name);
            let ending = class.filter(|class| class.metadata.deletion_timestamp.is_some());
            all.work.extend(ending.map(|class| Work::Class(key_of(class.as_ref()))));
            let pool = claim.metadata.labels.as_ref().and_then(|labels| labels.get(label::NODEPOOL));
            all.work.extend(pool.map(|pool| Work::Pool(pool.clone())));
            let id = super::provider_id(claim).unwrap_or_default();
            all.work.extend(index.nodes_of(id).into_iter().map(|node| Work::Node(key_of(node.as_ref()))));
        }
        if let Some(claim) = after.filter(|claim| !claim.is_true(condition::LAUNCHED)) {
            all.work.extend(launch_token(claim).map(|token| Work::Launch(token.to_owned())));
        }
        all.work.dedup();
        all
    }
}

impl Kept for NodePool {
    fn table(index: &Index) -> &Table<Self> {
        &index.pools
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.pools
    }

    fn consequences(_: &Index, before: Option<&Self>, after: Option<&Self>) -> Consequences {
        let name = after.or(before).map(key_of).unwrap_or_default();
        let spec = |pool: Option<&Self>| pool.map(|pool| (pool.spec.clone(), pool.is_true(condition::READY)));
        let plan = if spec(before) == spec(after) { Vec::new() } else { vec![format!("nodepool/{name}")] };
        Consequences { work: vec![Work::Pool(name)], plan }
    }
}

impl Kept for EC2NodeClass {
    fn table(index: &Index) -> &Table<Self> {
        &index.classes
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.classes
    }

    fn consequences(index: &Index, before: Option<&Self>, after: Option<&Self>) -> Consequences {
        let name = after.or(before).map(key_of).unwrap_or_default();
        let pools = index.pools.values().filter(|pool| pool.spec.template.spec.node_class_ref.name == name);
        let mut work: Vec<Work> = pools.map(|pool| Work::Pool(key_of(pool.as_ref()))).collect();
        work.push(Work::Class(name));
        Consequences { work, plan: Vec::new() }
    }
}

impl Kept for DaemonSet {
    fn table(index: &Index) -> &Table<Self> {
        &index.daemonsets
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.daemonsets
    }

    fn consequences(index: &Index, _: Option<&Self>, _: Option<&Self>) -> Consequences {
        let work = index.pools.keys().cloned().map(Work::Pool).collect();
        Consequences { work, plan: Vec::new() }
    }
}

impl Kept for PodDisruptionBudget {
    fn table(index: &Index) -> &Table<Self> {
        &index.budgets
    }

    fn table_mut(index: &mut Index) -> &mut Table<Self> {
        &mut index.budgets
    }

    fn consequences(_: &Index, _: Option<&Self>, _: Option<&Self>) -> Consequences {
        Consequences::default()
    }
}
