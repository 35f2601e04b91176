//! DaemonSet pods that running pods exclude, by anti-affinity of either side: they never start and need no capacity.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::check::in_flight_node::{InFlightNode, Value};
use crate::check::node_places::domains;
use crate::{BoundPod, Node, PodShape, PodTerm, Snapshot};

use super::topology_counts::means;

/// For each DaemonSet, the label values of nodes that exclude its pods.
pub(in crate::check) struct ExcludedDaemons(Vec<BTreeMap<String, BTreeSet<Value>>>);

impl ExcludedDaemons {
    /// Finds the excluded domains. `nodes` are the possible results of the snapshot's nodes without an instance.
    pub(in crate::check) fn new(snapshot: &Snapshot, nodes: &[Option<Rc<InFlightNode<'_>>>]) -> Self {
        let daemons = snapshot.daemons.iter().map(|daemon| &daemon.shape);
        Self(daemons.map(|daemon| excluded_domains(snapshot, nodes, daemon)).collect())
    }

    /// Reports whether the pod of a DaemonSet is excluded, with any of the possible values of each label.
    pub(in crate::check) fn contains(&self, daemon: usize, values: impl Fn(&str) -> Rc<BTreeSet<Value>>) -> bool {
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
                // A pod excludes all values that its node may still receive; no pod runs on a node without an instance.
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

/// Returns the topology keys of the anti-affinity terms between two pods.
fn apart(snapshot: &Snapshot, one: &PodShape, other: &PodShape) -> Vec<String> {
    let of = |owner: &PodShape, meant: &PodShape| {
        let terms = owner.apart.iter().filter(|term: &&PodTerm| means(snapshot, owner, term, meant));
        terms.map(|term| term.key.clone()).collect::<Vec<String>>()
    };
    [of(one, other), of(other, one)].concat()
}
