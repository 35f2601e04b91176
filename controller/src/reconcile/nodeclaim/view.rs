//! View of a NodeClaim from the index.

use std::sync::Arc;

use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::timeline::AwaitedPod;
use api::{NodeClaim, condition};
use jiff::Timestamp;

use super::{GateLimit, InstanceState, NodeClaimView, ReplacementView};
use crate::state::class_readiness::ClassReadiness;
use crate::state::index::Index;

/// Returns the view of a NodeClaim, without what only its reconcile knows.
#[must_use]
pub fn view(index: &Index, name: &str, now: Timestamp) -> Option<NodeClaimView> {
    let claim = Arc::clone(index.claims.get(name)?);
    let id = claim.provider_id().unwrap_or_default();
    let nodes: Vec<_> = index.nodes_of(id).into_iter().cloned().collect();
    let is_other = |node: &&Arc<Node>| nodes.iter().all(|own| own.name() != node.name());
    Some(NodeClaimView {
        other_nodes: index.all_nodes_of(id).into_iter().filter(is_other).cloned().collect(),
        last_pod_event: nodes.first().and_then(|node| index.last_pod_event(node.name())),
        gates: GateLimit::from_index(index, &claim, now),
        class: ClassReadiness::from_index(index, &claim.spec.node_class_ref.name),
        replacement: replacement_view(index, &claim),
        reboot_timeout: super::reboot::timeout(index, &claim),
        pool: index.pool_of(&claim).cloned(),
        awaited_pod: awaited_pod(index, &claim),
        nodes,
        claim,
        expected: Vec::new(),
        awaits_adoption: false,
        instance: InstanceState::Unknown,
        partition: None,
        notice: None,
        is_notice_held: false,
        now,
    })
}

/// Returns the pod for which the NodeClaim was created, if it exists.
fn awaited_pod(index: &Index, claim: &NodeClaim) -> Option<Arc<Pod>> {
    let awaited = AwaitedPod::from_claim(claim)?;
    index.pods.get(&awaited.name).filter(|pod| awaited.is(pod)).cloned()
}

/// Returns the view of a NodeClaim that a command created and that is not initialized yet.
fn replacement_view(index: &Index, claim: &NodeClaim) -> Option<ReplacementView> {
    claim.replaces().next().filter(|_| !claim.is_true(condition::INITIALIZED))?;
    let nodes = index.nodes_of_claim(claim);
    let in_use = nodes.iter().any(|node| index.is_in_use(node.name()));
    Some(ReplacementView { awaited: index.is_awaited(claim), in_use })
}
