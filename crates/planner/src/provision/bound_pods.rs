//! Pods that run already, by their shapes: what is true of a shape is found out once for all of its pods.

use std::collections::BTreeMap;

use crate::{BoundPod, Node, PodShape, Snapshot};

/// The bound pods of a snapshot.
pub(super) struct BoundPods<'a> {
    /// Each shape once, in the order in which nodes show them. Pods of one owner share theirs, so its address tells it apart.
    pub(super) shapes: Vec<&'a PodShape>,
    /// Which of the shapes each pod has, in the order of nodes and pods.
    of_pod: Vec<usize>,
}

impl<'a> BoundPods<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
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

    /// The pods of each node, with the positions of their shapes.
    pub(super) fn by_node(
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
