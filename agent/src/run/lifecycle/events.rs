//! Events of the Node: the first event that the API server does not have yet, one at a time.

use drain::Millis;

use super::agent_state::AgentState;
use crate::cluster::NodeEvent;
use crate::health;
use crate::run::ordered_writer::OrderedWriter;

#[derive(Debug, Default)]
pub(super) struct Events {
    lane: OrderedWriter,
}

impl Events {
    /// Returns the next event to create. There is none until the API server has answered.
    pub(super) fn next(&mut self, known: &AgentState, tidings: Vec<NodeEvent>, now: Millis) -> Option<NodeEvent> {
        if !known.may_write() {
            return None;
        }
        let untold = tidings.into_iter().find(|it| !known.journal.told.contains(&it.key))?;
        self.lane.take(now).then_some(untold)
    }

    pub(super) fn told(&mut self, known: &mut AgentState, key: String, done: bool, now: Millis) {
        self.lane.ended(done, now);
        if done {
            // Of a repeated event only the last time is stored. Otherwise the journal would grow without limit.
            if let Some((family, _)) = key.rsplit_once('-').filter(|(family, _)| family.starts_with(health::TIDING)) {
                let same = |other: &String| other.rsplit_once('-').is_some_and(|(other, _)| other == family);
                known.journal.told.retain(|other| !same(other));
            }
            known.dirty |= known.journal.told.insert(key);
        }
    }

    pub(super) fn hurry(&mut self, now: Millis) {
        self.lane.hurry(now);
    }

    pub(super) fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        self.lane.opens(now)
    }
}
