//! Whose hands the node is in. Before this agent asks for a pod it has read its Node, from where all writes are seen, and has found no
//! mark of the controller's there; and after a gap in its own life it has seen its pods afresh too. `drain::AgentHands` has the rules.

use std::time::Duration;

use api::annotation;
use drain::{AgentLiveness, AgentReport, Drain, Millis};

use super::AgentAction;
use crate::cluster::Node;
use crate::report::ConditionUpdate;

/// The agent looks around every few seconds: whoever has not for so long was stopped.
const GAP: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct OwnerTracker {
    rules: AgentLiveness,
    /// When it was last asked what comes first.
    alive: Option<Millis>,
}

impl OwnerTracker {
    /// The watch may lag: that there is no mark it cannot say.
    pub(super) fn observe(&mut self, node: &Node, now: Millis) {
        if let Some(words) = node.metadata.annotations.get(annotation::DRAIN_TAKEN_OVER) {
            self.rules.saw(words, now);
        }
    }

    pub(super) fn read(&mut self, node: Option<&Node>, began: Millis, now: Millis) {
        let reading = node.map(|node| AgentReport {
            mark: node.metadata.annotations.get(annotation::DRAIN_TAKEN_OVER).map(String::as_str),
            signed: node.metadata.annotations.contains_key(annotation::AGENT_HEARTBEAT),
        });
        self.rules.read(began, now, reading);
    }

    /// Until when requests may be sent.
    pub(super) fn until(&self, now: Millis) -> Millis {
        self.rules.until(now).unwrap_or(now)
    }

    /// Holds the drain, unless it may ask; what is to be done before it may.
    pub(super) fn before_asking(&mut self, drain: &mut Drain, now: Millis) -> Option<AgentAction> {
        if self.alive.replace(now).is_some_and(|last| now >= last + GAP) {
            drain.doubt(now);
        }
        let may = self.rules.until(now).is_some();
        drain.hold(!may);
        if may || !drain.wants(now) {
            return None;
        }
        self.rules.first(now).map(AgentAction::ReadNode)
    }

    pub(super) fn poll_timeout(&self, drain: &Drain, now: Millis) -> Option<Millis> {
        let waits = self.rules.until(now).is_none() && drain.wants(now);
        waits.then(|| self.rules.poll_timeout(now))
    }

    /// What people should know of it.
    pub(super) fn add_to(&self, said: ConditionUpdate) -> ConditionUpdate {
        let taken = if self.rules.is_relieved() { "; the controller drains it" } else { "" };
        ConditionUpdate { message: said.message + taken, ..said }
    }
}
