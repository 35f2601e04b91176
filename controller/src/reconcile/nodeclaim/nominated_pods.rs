//! kube-scheduler is informed which pods a new node was bought for, before it may use the node. Else nodes that come up one by one take
//! whoever is tried first, small pods sit where large ones were meant to, and more has to be bought than was planned.
//!
//! `status.nominatedNodeName` says so: kube-scheduler tries that node first, and keeps its room from pods of no higher priority. It
//! takes the word back where it finds the node closed and has nobody to preempt, and then lets the pod rest for some seconds; so it is
//! said again whenever it is missing, until the pod is bound or the promise has run out.

use api::objects::{Node, Pod};

use super::{NodeClaimDecision, NodeClaimView};
use crate::write::writer::{Operation, PodRef};

/// Comes before the write that opens the node.
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
