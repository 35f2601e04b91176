//! Events for people: the first event that the API server does not have yet, one at a time.

use drain::Millis;

use super::agent_state::AgentState;
use crate::health;
use crate::report::NodeEvent;
use crate::run::ordered_writer::OrderedWriter;

#[derive(Debug, Default)]
pub(super) struct Events {
    lane: OrderedWriter,
}

impl Events {
    /// The next to create; only once the API server has answered anything at all.
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
            // Of what comes again and again only the last time is remembered, or the journal would grow for ever.
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
