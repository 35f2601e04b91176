//! Replacements of disruption commands. A replacement whose command was rolled back, and whose node is not initialized, has no
//! purpose: it is deleted after a time limit. Until then no further command launches in its NodePool.

use std::time::Duration;

use api::status::Conditioned;
use api::{NodeClaim, condition, reason};

use super::{NodeClaimDecision, NodeClaimView, delete, target, time_left};
use crate::state::registration_health::Registration;
use crate::write::events::{Event, ObjectReference};
use crate::write::patches;
use crate::write::writer::Operation;

/// Time from registration to initialization after which a replacement without a command is deleted.
const INITIALIZATION_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Interval between checks of a replacement that is kept for now.
const RECHECK: Duration = Duration::from_secs(30);

/// Replacement that is not initialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplacementView {
    /// True if a command in progress waits for it.
    pub awaited: bool,
    /// True if pods run on its node.
    pub in_use: bool,
}

/// Result of a replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplacementResult {
    /// Its node was initialized.
    Initialized,
    /// The NodeClaim is deleted before that.
    Failed {
        /// Cause of the failure.
        cause: String,
    },
}

impl NodeClaimDecision {
    /// Returns the result of the replacement, if the NodeClaim is one and the decision ends its start.
    #[must_use]
    pub fn replacement_result(&self, claim: &NodeClaim) -> Option<ReplacementResult> {
        claim.replaces().next()?;
        match &self.registration {
            Some(Registration::Bad { message, .. }) => Some(ReplacementResult::Failed { cause: message.clone() }),
            _ => self.initialized.then_some(ReplacementResult::Initialized),
        }
    }
}

/// Deletes a registered replacement that no command waits for and that is not initialized in time.
pub(super) fn give_up(view: &NodeClaimView, claim: &NodeClaim, decision: &mut NodeClaimDecision) -> bool {
    let Some(replacement) = view.replacement.filter(|_| !claim.is_true(condition::INITIALIZED)) else { return false };
    let registered = api::status::find(claim.conditions(), condition::REGISTERED).filter(|found| found.is_true());
    let Some(registered) = registered else { return false };
    let left = time_left(registered.last_transition_time.0, INITIALIZATION_TIMEOUT, view.now);
    if !left.is_zero() || replacement.awaited || replacement.in_use {
        decision.wake(left.max(RECHECK));
        return false;
    }
    let initialized = api::status::find(claim.conditions(), condition::INITIALIZED);
    let obstacle = initialized.map_or("the node is not initialized", |found| found.message.as_str());
    let message = format!("not initialized within {} minutes: {obstacle}", INITIALIZATION_TIMEOUT.as_secs() / 60);
    let mut failed = claim.clone();
    failed.set_false(condition::INITIALIZED, reason::INITIALIZATION_TIMEOUT, &message, view.now);
    let patch = patches::status(&view.claim.metadata, &view.claim.status, &failed.status);
    let note = Event::warning(ObjectReference::to(claim), reason::INITIALIZATION_TIMEOUT, message.clone());
    decision.steps = vec![Operation::PatchStatus(target(claim), patch), Operation::Note(note), delete(claim)];
    decision.disrupted = Some("initialization_timeout");
    decision.registration = Some(Registration::Bad { reason: reason::INITIALIZATION_TIMEOUT.to_owned(), message });
    true
}
