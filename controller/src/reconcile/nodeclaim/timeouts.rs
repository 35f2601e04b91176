//! Time limits of a NodeClaim: for its launch, for the registration of its node, and for the initialization of a replacement
//! whose command was rolled back.

use std::time::Duration;

use api::decisions::{Decision, DecisionKind};
use api::status::Conditioned;
use api::{Condition, NodeClaim, condition, reason};

use super::{NodeClaimDecision, NodeClaimView, delete, name, replacement, time_left};
use crate::state::class_readiness::ClassReadiness;
use crate::state::registration_health::Registration;
use crate::write::events::{Event, ObjectReference};
use crate::write::writer::Operation;

/// Time after which a NodeClaim without an instance is deleted.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Time after which a NodeClaim without a registered node is deleted.
pub(super) const REGISTRATION_TIMEOUT: Duration = Duration::from_secs(15 * 60);

/// Deletes a NodeClaim that did not launch or register in time. Both timeouts begin at the last transition of the condition,
/// which at first is the creation of the NodeClaim. An instance that EC2 launched counts as launched before the API server has
/// stored it. Also deletes a replacement without a command.
pub(super) fn give_up(view: &NodeClaimView, claim: &NodeClaim, decision: &mut NodeClaimDecision) -> bool {
    let clocks = [
        (condition::LAUNCHED, LAUNCH_TIMEOUT, "launch_timeout"),
        (condition::REGISTERED, REGISTRATION_TIMEOUT, "registration_timeout"),
    ];
    let is_launched = |type_: &str| view.awaits_adoption && type_ == condition::LAUNCHED;
    for (type_, timeout, metric_reason) in clocks.into_iter().filter(|(type_, ..)| !is_launched(type_)) {
        let Some(found) = api::status::find(claim.conditions(), type_).filter(|found| !found.is_true()) else {
            continue;
        };
        let left = time_left(found.last_transition_time.0, timeout, view.now);
        if left.is_zero() {
            let message = format!("timed out after {} minutes: {}", timeout.as_secs() / 60, cause(view, found));
            let record = Decision {
                message: message.clone(),
                nodepools: [claim.nodepool()].into_iter().collect(),
                nodeclaims: claim.metadata.name.iter().cloned().collect(),
                ..Decision::new(view.now, DecisionKind::LaunchFailed, reason::LAUNCH_FAILED)
            };
            decision.steps = vec![
                Operation::Note(Event::warning(ObjectReference::to(claim), reason::LAUNCH_FAILED, message)),
                Operation::Record(Box::new(record)),
                delete(claim),
            ];
            decision.disrupted = Some(metric_reason);
            decision.registration = Some(failure(view, claim, found));
            return true;
        }
        decision.wake(left);
    }
    replacement::give_up(view, claim, decision)
}

/// Returns the cause of a condition that is not true. A launch that was never tried waits for its EC2NodeClass.
fn cause(view: &NodeClaimView, found: &Condition) -> String {
    let untried = found.type_ == condition::LAUNCHED && found.reason == reason::AWAITING_RECONCILIATION;
    let class = &view.claim.spec.node_class_ref.name;
    match &view.class {
        ClassReadiness::Unknown { message } if untried => message.clone(),
        _ if untried => {
            format!("EC2NodeClass {class:?} and its instance types are not loaded: check the log of the controller")
        }
        _ => found.message.clone(),
    }
}

/// Returns the result of a failed launch: EC2's reason without a launch, else the missing registration.
fn failure(view: &NodeClaimView, claim: &NodeClaim, launched: &Condition) -> Registration {
    match claim.is_true(condition::LAUNCHED) {
        true => Registration::Bad {
            reason: reason::REGISTRATION_FAILED.to_owned(),
            message: format!("the node of {} did not register", name(claim)),
        },
        false => Registration::Bad { reason: launched.reason.clone(), message: cause(view, launched) },
    }
}
