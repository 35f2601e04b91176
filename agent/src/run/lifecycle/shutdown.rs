//! The operating system goes down and waits for us: when it may go on.

use drain::Millis;

use super::agent_state::{Known, Seen};
use crate::notices::{Entry, Kind};

#[derive(Debug, Default)]
pub(super) struct Shutdown {
    /// The shutdown that was let go on.
    yielded: Option<String>,
}

impl Shutdown {
    /// Whether to let it go on now; said once for each. There is nothing to wait for once the node is empty, nobody wants it empty or
    /// it is not there, and no use in waiting when logind's patience ends.
    pub(super) fn yields(&mut self, known: &Known, now: Millis) -> bool {
        let Some(entry) = shutdown(known) else {
            self.yielded = None;
            return false;
        };
        let nothing_to_do = match known.seen {
            Seen::Absent | Seen::Foreign(_) => true,
            Seen::Unheard | Seen::Ours(_) => known.journal.order.is_none() || known.journal.outcome.is_some(),
        };
        let yields = (nothing_to_do || now >= entry.at) && self.yielded.as_ref() != Some(&entry.notice.id);
        if yields {
            self.yielded = Some(entry.notice.id.clone());
        }
        yields
    }

    pub(super) fn poll_timeout(&self, known: &Known) -> Option<Millis> {
        shutdown(known).filter(|_| self.yielded.is_none()).map(|entry| entry.at)
    }
}

fn shutdown(known: &Known) -> Option<&Entry> {
    known.journal.notices.active().find(|entry| entry.notice.kind == Kind::Shutdown)
}
