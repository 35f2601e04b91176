//! Copy of the whole timeline of a node's start on its NodeClaim, once the pod for which the node was created is ready. Then the
//! start can be explained for as long as the NodeClaim exists, whatever becomes of the pod and of the Node's own timeline.

use std::time::Duration;

use api::status::Conditioned as _;
use api::timeline::{self, AwaitedPod};
use api::{annotation, condition, status};
use serde_json::json;

use super::{NodeClaimDecision, NodeClaimView, target, time_left};
use crate::write::writer::Operation;

/// Time after the initialization in which the pod may become ready.
const LONGEST_WAIT: Duration = Duration::from_mins(15);

/// Writes the timeline of an initialized node. Does nothing while the status is written, because the next version of the
/// NodeClaim comes soon.
pub(super) fn copy(view: &NodeClaimView, decision: &mut NodeClaimDecision) {
    let claim = view.claim.as_ref();
    let initialized = status::find(claim.conditions(), condition::INITIALIZED).filter(|found| found.is_true());
    let Some(initialized) = initialized.filter(|_| !timeline::is_complete(claim)) else { return };
    let left = time_left(initialized.last_transition_time.0, LONGEST_WAIT, view.now);
    let is_awaited = AwaitedPod::from_claim(claim).is_some();
    if may_become_ready(view) && !left.is_zero() {
        decision.wake(left);
        return;
    }
    // A node without a timeline that has been in use for a while was started by an earlier version.
    if !is_awaited && left.is_zero() {
        return;
    }
    let node = view.nodes.first().map(AsRef::as_ref);
    let stages = timeline::stages(claim, node, view.awaited_pod.as_deref());
    let Some(text) = timeline::of_started_claim(claim, &stages) else { return };
    let patch = json!({"metadata": {"annotations": {annotation::TIMELINE: text}}});
    decision.steps.push(Operation::Patch(target(claim), patch));
    decision.started = stages;
}

/// Reports whether the pod for which the node was created is not ready, and still may become ready on this node.
fn may_become_ready(view: &NodeClaimView) -> bool {
    let node = view.nodes.first().map_or("", |node| node.name());
    view.awaited_pod.as_ref().is_some_and(|pod| {
        let may_be_here = !pod.is_bound() || pod.spec.node_name == node;
        may_be_here && !pod.is_ready() && !pod.is_terminal() && !pod.is_terminating()
    })
}
