//! Nominations of pods for kube-scheduler, written before the new node may be used. Without nominations, nodes that start one
//! by one receive the first pods that kube-scheduler tries. Small pods then occupy the capacity for large ones, and more nodes
//! are launched than planned.
//!
//! The field is `status.nominatedNodeName`: kube-scheduler tries that node first, and reserves its capacity against pods of no
//! higher priority. If the node is tainted and there is nothing to preempt, kube-scheduler clears the field and delays the pod
//! for some seconds. So the field is written again whenever it is missing, until the pod is bound or the nomination has
//! expired.

use api::objects::{Node, Pod};

use super::{NodeClaimDecision, NodeClaimView};
use crate::write::writer::{Operation, PodRef};

/// Adds the nominations; the operation precedes the write that opens the node.
pub(super) fn annotate(view: &NodeClaimView, node: &Node, decision: &mut NodeClaimDecision) {
    let untold = view.expected.iter().filter(|pod| !pod.is_bound() && pod.status.nominated_node_name != node.name());
    let pods: Vec<PodRef> = untold.map(|pod| reference(pod)).collect();
    if !pods.is_empty() {
        decision.steps.push(Operation::Expect(pods, node.name().to_owned()));
    }
}

fn reference(pod: &Pod) -> PodRef {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    PodRef { namespace: pod.namespace().to_owned(), name: pod.name().to_owned(), uid }
}
