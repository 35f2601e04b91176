//! Shutdown of the operating system, which waits for the agent, and the time at which it may continue.

use drain::Millis;

use super::agent_state::{AgentState, ObservedNode};
use crate::notices::{ImdsNoticeKind, StoredNotice};

#[derive(Debug, Default)]
pub(super) struct Shutdown {
    /// Id of the shutdown that may continue.
    yielded: Option<String>,
}

impl Shutdown {
    /// Reports once for each shutdown whether it may continue now. Waiting has no purpose once the node is drained, if no order
    /// requires a drain, or if the Node does not exist. Waiting has no effect after the delay of logind ends.
    pub(super) fn yields(&mut self, known: &AgentState, now: Millis) -> bool {
        let Some(entry) = shutdown(known) else {
            self.yielded = None;
            return false;
        };
        let nothing_to_do = match known.seen {
            ObservedNode::Absent | ObservedNode::Foreign(_) => true,
            ObservedNode::Unknown | ObservedNode::Ours(_) => {
                known.journal.order.is_none() || known.journal.outcome.is_some()
            }
        };
        let yields = (nothing_to_do || now >= entry.at) && self.yielded.as_ref() != Some(&entry.notice.id);
        if yields {
            self.yielded = Some(entry.notice.id.clone());
        }
        yields
    }

    pub(super) fn poll_timeout(&self, known: &AgentState) -> Option<Millis> {
        shutdown(known).filter(|_| self.yielded.is_none()).map(|entry| entry.at)
    }
}

fn shutdown(known: &AgentState) -> Option<&StoredNotice> {
    known.journal.notices.active().find(|entry| entry.notice.kind == ImdsNoticeKind::Shutdown)
}
