//! DaemonSet pods that running pods keep away, by anti-affinity of either side: those never come, and need no room.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::{BoundPod, Node, PodShape, PodTerm, Snapshot};

use super::in_flight_node::{InFlightNode, Value};
use super::node_places::domains;
use super::topology_counts::means;

/// For each DaemonSet the label values whose nodes its pods are kept off.
pub(super) struct ExcludedDaemons(Vec<BTreeMap<String, BTreeSet<Value>>>);

impl ExcludedDaemons {
    /// `nodes` are what the snapshot's nodes without an instance may become.
    pub(super) fn new(snapshot: &Snapshot, nodes: &[Option<Rc<InFlightNode<'_>>>]) -> Self {
        let daemons = snapshot.daemons.iter().map(|daemon| &daemon.shape);
        Self(daemons.map(|daemon| excluded_domains(snapshot, nodes, daemon)).collect())
    }

    /// Whether the pod of a DaemonSet is kept off, whichever of its values each label has.
    pub(super) fn contains(&self, daemon: usize, values: impl Fn(&str) -> Rc<BTreeSet<Value>>) -> bool {
        self.0[daemon].iter().any(|(key, barred)| {
            let possible = values(key);
            !possible.is_empty() && possible.is_subset(barred)
        })
    }
}

fn excluded_domains(
    snapshot: &Snapshot,
    nodes: &[Option<Rc<InFlightNode<'_>>>],
    daemon: &PodShape,
) -> BTreeMap<String, BTreeSet<Value>> {
    let moving: BTreeSet<&str> = snapshot.pods.iter().map(|pod| pod.uid.as_str()).collect();
    let mut keys: BTreeMap<*const PodShape, Rc<[String]>> = BTreeMap::new();
    let mut barred: BTreeMap<String, BTreeSet<Value>> = BTreeMap::new();
    for (node, in_flight_node) in snapshot.nodes.iter().zip(nodes) {
        for pod in node.pods.iter().filter(|pod| remains(pod, node, &moving)) {
            let shape = pod.shape.as_ref();
            let keys = keys.entry(Arc::as_ptr(&pod.shape)).or_insert_with(|| apart(snapshot, daemon, shape).into());
            for key in keys.iter() {
                // A pod bars all values that its node may still get; nobody runs on a node without an instance.
                let values = domains(node, in_flight_node.as_deref(), key);
                barred.entry(key.clone()).or_default().extend(values.iter().filter(|it| it.is_some()).cloned());
            }
        }
    }
    barred
}

fn remains(pod: &BoundPod, node: &Node, moving: &BTreeSet<&str>) -> bool {
    (pod.reschedulable || node.leaving.is_none()) && !pod.ending && !moving.contains(pod.uid.as_str())
}

/// The keys of the terms by which two pods keep away from each other.
fn apart(snapshot: &Snapshot, one: &PodShape, other: &PodShape) -> Vec<String> {
    let of = |owner: &PodShape, meant: &PodShape| {
        let terms = owner.apart.iter().filter(|term: &&PodTerm| means(snapshot, owner, term, meant));
        terms.map(|term| term.key.clone()).collect::<Vec<String>>()
    };
    [of(one, other), of(other, one)].concat()
}

/// Whether a pod of these labels is one of the DaemonSet's own, as it runs on a node already.
pub(super) fn is_running(node: &Node, daemon: &PodShape) -> bool {
    node.pods.iter().map(|pod| &pod.shape).any(|shape| {
        let labels = &shape.labels;
        shape.namespace == daemon.namespace && daemon.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    })
}
