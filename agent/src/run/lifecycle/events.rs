//! Events of the Node: the first event that the API server does not have yet, one at a time.

use drain::Millis;

use super::agent_state::AgentState;
use crate::cluster::NodeEvent;
use crate::health;
use crate::run::ordered_writer::OrderedWriter;

#[derive(Debug, Default)]
pub(super) struct Events {
    writer: OrderedWriter,
}

impl Events {
    /// Returns the next event to create. There is none until the API server has answered.
    pub(super) fn next(&mut self, known: &AgentState, events: Vec<NodeEvent>, now: Millis) -> Option<NodeEvent> {
        if !known.may_write() {
            return None;
        }
        let unpublished = events.into_iter().find(|it| !known.journal.published_events.contains(&it.key))?;
        self.writer.take(now).then_some(unpublished)
    }

    pub(super) fn written(&mut self, known: &mut AgentState, key: String, done: bool, now: Millis) {
        self.writer.ended(done, now);
        if done {
            // Of a repeated event only the last time is stored. Otherwise the journal would grow without limit.
            if let Some((family, _)) = key.rsplit_once('-').filter(|(family, _)| family.starts_with(health::EVENT_KEY))
            {
                let same = |other: &String| other.rsplit_once('-').is_some_and(|(other, _)| other == family);
                known.journal.published_events.retain(|other| !same(other));
            }
            known.dirty |= known.journal.published_events.insert(key);
        }
    }

    pub(super) fn hurry(&mut self, now: Millis) {
        self.writer.hurry(now);
    }

    pub(super) fn poll_timeout(&self, now: Millis) -> Option<Millis> {
        self.writer.opens(now)
    }
}
