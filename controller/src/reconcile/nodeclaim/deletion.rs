//! Deletion of a NodeClaim: its node first, then its instance, then its finalizer.

use api::status::Conditioned;
use api::{NodeClaim, annotation, condition, finalizer, reason};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::{
    InstanceState, NodeClaimDecision, NodeClaimView, SHIFTED_LOOK, has_finalizer, name, next_look, not_terminated,
    target, write_status,
};
use crate::write::events::{Event, ObjectReference};
use crate::write::patches;
use crate::write::writer::{Operation, Target};

/// Reports whether the decision depends on the current state of the instance. A node that registered must be gone before.
pub(super) fn asks(view: &NodeClaimView) -> bool {
    let claim = &view.claim;
    let leaves = claim.metadata.deletion_timestamp.is_some() && has_finalizer(claim);
    leaves && missing_deadline(claim).is_none() && !has_node(view)
}

fn has_node(view: &NodeClaimView) -> bool {
    view.claim.is_true(condition::REGISTERED) && !view.nodes.is_empty()
}

/// Decides about a NodeClaim that is being deleted.
pub(super) fn decide(view: &NodeClaimView) -> NodeClaimDecision {
    let claim = &view.claim;
    let mut decision = NodeClaimDecision::default();
    if !has_finalizer(claim) {
        return decision;
    }
    if let Some(deadline) = missing_deadline(claim) {
        let patch = json!({"metadata": {"annotations": {annotation::TERMINATION_TIMESTAMP: deadline}}});
        let message = format!("pods are deleted at {deadline}");
        let note =
            Event::warning(ObjectReference::to(claim.as_ref()), reason::TERMINATION_GRACE_PERIOD_EXPIRING, message);
        decision.steps = vec![Operation::Patch(target(claim), patch), Operation::Note(note)];
        return decision;
    }
    if has_node(view) {
        for node in view.nodes.iter().filter(|node| node.metadata.deletion_timestamp.is_none()) {
            let uid = node.metadata.uid.clone().unwrap_or_default();
            decision.steps.push(Operation::Delete(Target::Node(node.name().to_owned()), uid));
        }
        return decision;
    }
    end_instance(view, &mut decision);
    decision
}

/// Returns the deadline that the termination grace period requires, while the NodeClaim has none, an invalid or a later one.
fn missing_deadline(claim: &NodeClaim) -> Option<Timestamp> {
    let end = grace_end(claim, claim.metadata.deletion_timestamp.as_ref()?.0)?;
    termination_time(claim).is_none_or(|carried| carried > end).then_some(end)
}

/// Returns the end of the termination grace period that begins at `start`; `None` without a valid one.
pub(super) fn grace_end(claim: &NodeClaim, start: Timestamp) -> Option<Timestamp> {
    let grace = claim.spec.termination_grace_period.as_ref()?.seconds().ok()??;
    start.checked_add(SignedDuration::from_secs(grace)).ok()
}

/// Returns the time at which every pod must be gone, if the NodeClaim carries a valid one.
pub(super) fn termination_time(claim: &NodeClaim) -> Option<Timestamp> {
    let annotations = claim.metadata.annotations.as_ref()?;
    annotations.get(annotation::TERMINATION_TIMESTAMP)?.parse().ok()
}

fn end_instance(view: &NodeClaimView, decision: &mut NodeClaimDecision) {
    let launched = view.claim.instance_id();
    match (launched, view.instance) {
        (None, _) | (Some(_), InstanceState::Gone) => release(&view.claim, decision),
        (Some(id), InstanceState::Shifted) => {
            decision.steps.push(Operation::Note(not_terminated(&view.claim, id)));
            decision.wake(SHIFTED_LOOK);
        }
        (Some(_), InstanceState::Unknown) => decision.wake(next_look(&view.claim, view.now)),
        (Some(id), InstanceState::Alive | InstanceState::Ending) => {
            if view.instance == InstanceState::Alive {
                decision.steps.push(Operation::Terminate(id.to_owned()));
            }
            let mut claim = NodeClaim::clone(&view.claim);
            claim.set_true(condition::INSTANCE_TERMINATING, view.now);
            write_status(view, &claim, decision);
            decision.wake(next_look(&view.claim, view.now));
        }
    }
}

/// Removes the finalizer, so that Kubernetes deletes the NodeClaim.
fn release(claim: &NodeClaim, decision: &mut NodeClaimDecision) {
    let patch = patches::without_finalizer(&claim.metadata, finalizer::TERMINATION);
    decision.steps.push(Operation::Patch(Target::Claim(name(claim).to_owned()), patch));
    decision.released = true;
}
