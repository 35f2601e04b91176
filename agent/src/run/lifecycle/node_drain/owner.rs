//! Drain owner: the agent or the controller. Before this agent evicts a pod, it reads its Node with a consistent read, and
//! finds no mark of the controller there. After a gap in its own run it also lists its pods again. `drain::AgentOwnership` has
//! the rules.

use std::time::Duration;

use api::annotation;
use drain::{AgentOwnership, Drain, Millis, NodeReading};

use crate::cluster::{ConditionUpdate, Node};
use crate::run::lifecycle::AgentAction;

/// Gap between two steps after which the agent counts as suspended. Normally it steps every few seconds.
const GAP: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct OwnerTracker {
    rules: AgentOwnership,
    /// Time of the last call of `before_requests`.
    alive: Option<Millis>,
}

impl OwnerTracker {
    /// Records a mark of the controller from the watch. The watch may be delayed, so an absent mark proves nothing.
    pub(super) fn observe(&mut self, node: &Node, now: Millis) {
        if let Some(words) = node.metadata.annotations.get(annotation::DRAIN_TAKEN_OVER) {
            self.rules.observe_mark(words, now);
        }
    }

    pub(super) fn read(&mut self, node: Option<&Node>, began: Millis, now: Millis) {
        let reading = node.map(|node| NodeReading {
            mark: node.metadata.annotations.get(annotation::DRAIN_TAKEN_OVER).map(String::as_str),
            has_heartbeat: node.metadata.annotations.contains_key(annotation::AGENT_HEARTBEAT),
        });
        self.rules.read(began, now, reading);
    }

    /// Returns the time until which requests may be sent.
    pub(super) fn until(&self, now: Millis) -> Millis {
        self.rules.until(now).unwrap_or(now)
    }

    /// Holds the drain, unless requests may be sent. Returns the action that must precede them.
    pub(super) fn before_requests(&mut self, drain: &mut Drain, now: Millis) -> Option<AgentAction> {
        if self.alive.replace(now).is_some_and(|last| now >= last + GAP) {
            drain.mark_outdated(now);
        }
        let may = self.rules.until(now).is_some();
        drain.hold(!may);
        if may || !drain.has_due_requests(now) {
            return None;
        }
        self.rules.first(now).map(AgentAction::ReadNode)
    }

    pub(super) fn poll_timeout(&self, drain: &Drain, now: Millis) -> Option<Millis> {
        let waits = self.rules.until(now).is_none() && drain.has_due_requests(now);
        waits.then(|| self.rules.poll_timeout(now))
    }

    /// Adds the drain owner to the message, if it is the controller.
    pub(super) fn add_to(&self, update: ConditionUpdate) -> ConditionUpdate {
        let taken = if self.rules.is_controller_owner() { "; the controller drains it" } else { "" };
        ConditionUpdate { message: update.message + taken, ..update }
    }
}
