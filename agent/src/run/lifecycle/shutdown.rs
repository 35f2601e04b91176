//! The operating system goes down and waits for us: when it may go on.

use drain::Millis;

use super::agent_state::{AgentState, ObservedNode};
use crate::notices::{ImdsNoticeKind, StoredNotice};

#[derive(Debug, Default)]
pub(super) struct Shutdown {
    /// The shutdown that was let go on.
    yielded: Option<String>,
}

impl Shutdown {
    /// Whether to let it go on now; said once for each. There is nothing to wait for once the node is empty, nobody wants it empty or
    /// it is not there, and no use in waiting when logind's patience ends.
    pub(super) fn yields(&mut self, known: &AgentState, now: Millis) -> bool {
        let Some(entry) = shutdown(known) else {
            self.yielded = None;
            return false;
        };
        let nothing_to_do = match known.seen {
            ObservedNode::Absent | ObservedNode::Foreign(_) => true,
            ObservedNode::Unheard | ObservedNode::Ours(_) => {
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
