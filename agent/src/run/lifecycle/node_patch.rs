//! Specification, labels and annotations of the Node: the heartbeat, and the marks of other duties.

use std::time::Duration;

use api::{annotation, label};
use drain::Millis;
use serde_json::{Value, json};

use super::agent_state::AgentState;
use crate::host::clock::rfc3339;
use crate::run::journal::OwnedMarks;
use crate::run::ordered_writer::OrderedWriter;

/// Maximum age of the heartbeat, well before the minute after which it counts as missing. During a drain the age is shorter,
/// because the controller takes over after half a minute.
const HEARTBEAT: Duration = Duration::from_secs(45);
const HEARTBEAT_DRAINING: Duration = Duration::from_secs(10);

/// Delay until the watch shows a write.
const ECHO: Duration = Duration::from_secs(10);

/// Merge patch that a duty needs on the Node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NodePatch {
    pub(super) patch: Value,
    /// True if the patch never waits for another one. The rest is sent together with the urgent ones; after a refusal it waits
    /// until no urgent one is left, so that a patch which the API server refuses cannot delay the heartbeat.
    pub(super) urgent: bool,
}

#[derive(Debug)]
pub(super) struct NodePatcher {
    writer: OrderedWriter,
    heartbeat: Option<Millis>,
    /// True if the patch in progress, or the last one, cordons the node.
    cordoning: bool,
    /// True if the API server has accepted a patch that cordons the node.
    cordoned: bool,
    /// End of the last patch. A patch of an earlier process may become visible until then.
    wrote: Millis,
}

impl NodePatcher {
    pub(super) fn new(now: Millis) -> Self {
        Self { writer: OrderedWriter::default(), heartbeat: None, cordoning: false, cordoned: false, wrote: now }
    }

    /// Reports whether the API server has accepted a cordon of this agent.
    pub(super) fn cordoned(&self) -> bool {
        self.cordoned
    }

    /// Returns the next patch. Marks that the agent must remove later are in the journal before the patch is sent.
    pub(super) fn patch(&mut self, known: &mut AgentState, patches: Vec<NodePatch>, now: Millis) -> Option<Value> {
        known.node()?;
        let old = self.heartbeat.is_none_or(|at| now >= at + heartbeat_age(known));
        let heartbeat = old.then(
            || json!({"metadata": {"annotations": {annotation::AGENT_HEARTBEAT: rfc3339(known.wall.wall_time(now))}}}),
        );
        let (urgent, patient): (Vec<NodePatch>, Vec<NodePatch>) = patches.into_iter().partition(|wanted| wanted.urgent);
        let urgent = urgent.into_iter().map(|wanted| wanted.patch).chain(heartbeat);
        let patient = patient.into_iter().map(|wanted| wanted.patch).reduce(merged);
        let patch = match (urgent.reduce(merged), patient) {
            (Some(urgent), Some(patient)) if !self.writer.has_failed() => merged(patient, urgent),
            (Some(urgent), _) => urgent,
            (None, patient) => patient?,
        };
        if !self.writer.take(now) {
            return None;
        }
        self.heartbeat = old.then_some(now).or(self.heartbeat);
        self.cordoning = patch["spec"]["unschedulable"] == true;
        self.cordoned &= patch["spec"]["unschedulable"] != false;
        let sent = OwnedMarks {
            cordoned: self.cordoning,
            excluded: patch["metadata"]["labels"][label::EXCLUDE_BALANCERS].is_string(),
            dated: patch["metadata"]["annotations"][annotation::INTERRUPTION_DEADLINE].is_string(),
            reported: false,
        };
        let ours = known.journal.ours.with(sent);
        known.dirty |= known.journal.ours != ours;
        known.journal.ours = ours;
        Some(patch)
    }

    pub(super) fn written(&mut self, done: bool, now: Millis) {
        self.writer.ended(done, now);
        self.cordoned |= done && self.cordoning;
        self.heartbeat = self.heartbeat.filter(|_| done);
        self.wrote = now;
    }

    /// Reports whether the Node from the watch includes everything that was written.
    pub(super) fn settled(&self, now: Millis) -> bool {
        self.writer.is_free() && now >= self.wrote + ECHO
    }

    pub(super) fn retry_soon(&mut self, now: Millis) {
        self.writer.hurry(now);
    }

    pub(super) fn poll_timeout(&self, known: &AgentState, now: Millis) -> Option<Millis> {
        let due = self.heartbeat.map(|at| at + heartbeat_age(known)).filter(|at| *at > now && self.writer.is_free());
        self.writer.opens(now).into_iter().chain(due).min()
    }
}

/// Returns the maximum age of the heartbeat.
fn heartbeat_age(known: &AgentState) -> Duration {
    let drains = known.journal.drain.is_some() && known.journal.outcome.is_none();
    if drains { HEARTBEAT_DRAINING } else { HEARTBEAT }
}

/// Timeline of this node's start as an annotation, for people without access to the instance.
#[derive(Debug, Default)]
pub(super) struct TimelineMark {
    line: Option<String>,
}

impl TimelineMark {
    pub(super) fn take(&mut self, line: String) {
        self.line = Some(line);
    }

    /// Returns the patch with the annotation. The patch is not urgent, because no decision depends on the timeline. With the
    /// first heartbeat it is on the Node before the node is initialized, so that the decision log has the stages of the agent.
    pub(super) fn node_patch(&self, known: &AgentState) -> Option<NodePatch> {
        let line = self.line.as_ref()?;
        let stands = known.node()?.metadata.annotations.get(annotation::TIMELINE) == Some(line);
        let patch = || json!({"metadata": {"annotations": {annotation::TIMELINE: line}}});
        (!stands).then(|| NodePatch { patch: patch(), urgent: false })
    }
}

/// Merges both patches. The second one takes precedence.
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
