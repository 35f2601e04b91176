//! Status of objects that each plan evaluates, as the last plan found them.

pub mod buffer;
pub mod commitment;
pub mod overlay;
pub mod provisioning_request;
pub mod spend_policy;

use api::condition;
use api::status::{Condition, DesiredCondition, set_plain};
use jiff::Timestamp;

use super::queue::QueueAction;
use super::work::WorkItem;
use crate::state::index::Index;
use crate::state::plans::results::PlanResultStore;
use crate::write::writer::Operation;

/// Decision about one of these objects.
pub struct Decision {
    /// Operations on its status.
    pub steps: Vec<Operation>,
    /// Time of the next reconcile.
    pub next: QueueAction,
}

/// Condition that a plan found.
struct FoundCondition {
    type_: &'static str,
    is_true: bool,
    reason: &'static str,
    message: String,
}

impl FoundCondition {
    fn new(type_: &'static str, is_true: bool, reason: &'static str, message: impl Into<String>) -> Self {
        Self { type_, is_true, reason, message: message.into() }
    }

    /// Sets conditions of an object of this generation. Returns whether any of them changed.
    fn set_all(found: &[Self], conditions: &mut Vec<Condition>, generation: i64, now: Timestamp) -> bool {
        let mut changed = false;
        for Self { type_, is_true, reason, message } in found {
            let status = if *is_true { condition::TRUE } else { condition::FALSE };
            let wanted = DesiredCondition { type_, status, reason, message };
            changed |= set_plain(conditions, wanted, generation, now);
        }
        changed
    }
}

/// Decides about the object of a work item. An object that is gone, or of another kind, needs nothing.
#[must_use]
pub fn decide(work: &WorkItem, index: &Index, results: &PlanResultStore, now: Timestamp) -> Decision {
    let (steps, next) = match work {
        WorkItem::Overlay(name) => {
            let overlay = index.overlays.get(name).cloned();
            let view = overlay.map(|overlay| overlay::OverlayView { overlay, finding: results.overlay(name), now });
            (view.map(|view| overlay::decide(&view)), QueueAction::Wait)
        }
        WorkItem::Buffer(key) => {
            let buffer = index.buffers.get(key).cloned();
            let view = buffer.map(|buffer| buffer::BufferView { buffer, finding: results.buffer(key), now });
            (view.map(|view| buffer::decide(&view)), QueueAction::Wait)
        }
        WorkItem::Request(key) => {
            let Some(request) = index.requests.get(key).cloned() else {
                return Decision { steps: Vec::new(), next: QueueAction::Wait };
            };
            let finding = results.request(key);
            return provisioning_request::decide(&provisioning_request::RequestView { request, finding, now });
        }
        WorkItem::SpendPolicy(name) => {
            let policy = index.spend_policies.get(name).cloned();
            let finding = results.spend_policy(name);
            let view = policy.map(|policy| spend_policy::SpendPolicyView { policy, finding, now });
            let next = view.as_ref().map_or(QueueAction::Wait, |_| QueueAction::After(spend_policy::INTERVAL));
            (view.map(|view| spend_policy::decide(&view)), next)
        }
        WorkItem::Commitment(name) => {
            let commitment = index.commitments.get(name).cloned();
            let finding = results.commitment(name);
            let view = commitment.map(|commitment| commitment::CommitmentView { commitment, finding, now });
            (view.map(|view| commitment::decide(&view)), QueueAction::Wait)
        }
        _ => (None, QueueAction::Wait),
    };
    Decision { steps: steps.unwrap_or_default(), next }
}
