//! Conditions of the Node: desired conditions are compared with the current ones, and differences are written.

use std::time::Duration;

use drain::Millis;
use serde_json::Value;

use super::agent_state::AgentState;
use crate::cluster::{ConditionUpdate, Node, status_patch};

use crate::health;
use crate::run::ordered_writer::OrderedWriter;

/// Time for which the conditions of the last write count as current, because the watch shows them with a delay.
const ECHO: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Conditions {
    writer: OrderedWriter,
    /// Conditions of the status patch in progress, then those of the last write.
    stated: Vec<ConditionUpdate>,
    stated_at: Option<Millis>,
}

impl Conditions {
    pub(super) fn patch(&mut self, known: &AgentState, wanted: &[ConditionUpdate], now: Millis) -> Option<Value> {
        let node = known.node()?;
        let fresh = self.stated_at.is_some_and(|at| now < at + ECHO);
        let stands = |it: &ConditionUpdate| {
            if fresh {
                self.stated.contains(it)
            } else {
                stands(node, it) && !health::is_old(node, it, known.wall.wall_time(now))
            }
        };
        if wanted.iter().all(stands) {
            return None;
        }
        let patch = status_patch(wanted, |it| !has_status(node, it), known.wall.wall_time(now));
        self.writer.take(now).then(|| {
            self.stated = wanted.to_vec();
            patch
        })
    }

    pub(super) fn written(&mut self, done: bool, now: Millis) {
        self.writer.ended(done, now);
        self.stated_at = done.then_some(now);
    }

    pub(super) fn hurry(&mut self, now: Millis) {
        self.writer.hurry(now);
    }

    pub(super) fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        self.writer.opens(now)
    }
}

/// Reports whether the Node has exactly this condition.
fn stands(node: &Node, wanted: &ConditionUpdate) -> bool {
    node.condition(wanted.kind)
        .is_some_and(|it| it.status == wanted.status && it.reason == wanted.reason && it.message == wanted.message)
}

fn has_status(node: &Node, wanted: &ConditionUpdate) -> bool {
    node.condition(wanted.kind).is_some_and(|it| it.status == wanted.status)
}
