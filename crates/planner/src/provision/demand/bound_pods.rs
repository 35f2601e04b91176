//! Running pods by shape: facts about a shape are determined once for all of its pods.

use std::collections::BTreeMap;

use crate::{BoundPod, Node, PodShape, Snapshot};

/// Bound pods of a snapshot.
pub(in crate::provision) struct BoundPods<'a> {
    /// Each shape once, in the order of the nodes. Pods of one owner share a shape, so its address identifies it.
    pub(in crate::provision) shapes: Vec<&'a PodShape>,
    /// Shape of each pod, in the order of nodes and pods.
    of_pod: Vec<usize>,
}

impl<'a> BoundPods<'a> {
    pub(in crate::provision) fn new(snapshot: &'a Snapshot) -> Self {
        let mut known: BTreeMap<*const PodShape, usize> = BTreeMap::new();
        let mut shapes: Vec<&PodShape> = Vec::new();
        let position = |pod: &'a BoundPod| {
            *known.entry(std::ptr::from_ref(pod.shape.as_ref())).or_insert_with(|| {
                shapes.push(&pod.shape);
                shapes.len() - 1
            })
        };
        let of_pod = snapshot.nodes.iter().flat_map(|node| &node.pods).map(position).collect();
        Self { shapes, of_pod }
    }

    /// Returns the pods of each node, with the positions of their shapes.
    pub(in crate::provision) fn by_node(
        &self,
        snapshot: &'a Snapshot,
    ) -> impl Iterator<Item = (&'a Node, impl Iterator<Item = (&'a BoundPod, usize)>)> {
        let mut begin = 0;
        snapshot.nodes.iter().map(move |node| {
            let shapes = &self.of_pod[begin..begin + node.pods.len()];
            begin += node.pods.len();
            (node.as_ref(), node.pods.iter().zip(shapes.iter().copied()))
        })
    }
}
