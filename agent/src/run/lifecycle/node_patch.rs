//! What stands in the Node's specification, labels and annotations: the sign of life, and what other duties request to see there.

use std::time::Duration;

use api::{annotation, label};
use drain::Millis;
use serde_json::{Value, json};

use super::agent_state::AgentState;
use crate::journal::OwnedMarks;
use crate::report::rfc3339;
use crate::run::ordered_writer::OrderedWriter;

/// The sign of life is renewed at this age: well before the minute at which it must be, and while the node is emptied before the half
/// minute after which the controller takes over.
const HEARTBEAT: Duration = Duration::from_secs(45);
const HEARTBEAT_DRAINING: Duration = Duration::from_secs(10);

/// The watch needs a moment to show what was written.
const ECHO: Duration = Duration::from_secs(10);

/// What a duty misses on the Node, as a merge patch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodePatch {
    pub(super) patch: Value,
    /// It goes along with the sign of life; others wait until nothing else is to be written, so that a patch which the API server
    /// refuses cannot starve the sign of life.
    pub(super) urgent: bool,
}

#[derive(Debug)]
pub(super) struct NodePatcher {
    lane: OrderedWriter,
    heartbeat: Option<Millis>,
    /// The patch under way, or the last one, cordons.
    cordoning: bool,
    /// The API server has taken a patch that cordons.
    cordoned: bool,
    /// When the last patch ended. What an earlier process sent may show as late as that.
    wrote: Millis,
}

impl NodePatcher {
    pub(super) fn new(now: Millis) -> Self {
        Self { lane: OrderedWriter::default(), heartbeat: None, cordoning: false, cordoned: false, wrote: now }
    }

    /// Whether the API server has taken a cordon of ours.
    pub(super) fn cordoned(&self) -> bool {
        self.cordoned
    }

    /// The next patch. What of it is ours to take back one day is in the journal before it is sent.
    pub(super) fn patch(&mut self, known: &mut AgentState, wishes: Vec<NodePatch>, now: Millis) -> Option<Value> {
        known.node()?;
        let drains = known.journal.drain.is_some() && known.journal.outcome.is_none();
        let age = if drains { HEARTBEAT_DRAINING } else { HEARTBEAT };
        let old = self.heartbeat.is_none_or(|at| now >= at + age);
        let heartbeat = old.then(
            || json!({"metadata": {"annotations": {annotation::AGENT_HEARTBEAT: rfc3339(known.wall.wall_time(now))}}}),
        );
        let (urgent, patient): (Vec<NodePatch>, Vec<NodePatch>) = wishes.into_iter().partition(|wish| wish.urgent);
        let urgent = urgent.into_iter().map(|wish| wish.patch).chain(heartbeat);
        let patient = patient.into_iter().map(|wish| wish.patch);
        let patch = urgent.reduce(merged).or_else(|| patient.reduce(merged))?;
        if !self.lane.take(now) {
            return None;
        }
        self.heartbeat = old.then_some(now).or(self.heartbeat);
        self.cordoning = patch["spec"]["unschedulable"] == true;
        self.cordoned &= patch["spec"]["unschedulable"] != false;
        let sent = OwnedMarks {
            cordoned: self.cordoning,
            excluded: patch["metadata"]["labels"][label::EXCLUDE_BALANCERS].is_string(),
            dated: patch["metadata"]["annotations"][annotation::INTERRUPTION_DEADLINE].is_string(),
            said: false,
        };
        let ours = known.journal.ours.with(sent);
        known.dirty |= known.journal.ours != ours;
        known.journal.ours = ours;
        Some(patch)
    }

    pub(super) fn written(&mut self, done: bool, now: Millis) {
        self.lane.ended(done, now);
        self.cordoned |= done && self.cordoning;
        self.heartbeat = self.heartbeat.filter(|_| done);
        self.wrote = now;
    }

    /// Whether the Node as seen shows everything that was written.
    pub(super) fn settled(&self, now: Millis) -> bool {
        self.lane.is_free() && now >= self.wrote + ECHO
    }

    pub(super) fn retry_soon(&mut self, now: Millis) {
        self.lane.hurry(now);
    }

    pub(super) fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        self.lane.opens(now)
    }
}

/// Both patches in one; where they meet the second counts.
fn merged(mut first: Value, second: Value) -> Value {
    match (&mut first, second) {
        (Value::Object(fields), Value::Object(more)) => {
            for (key, value) in more {
                let before = fields.remove(&key).unwrap_or_default();
                fields.insert(key, merged(before, value));
            }
            first
        }
        (_, second) => second,
    }
}
