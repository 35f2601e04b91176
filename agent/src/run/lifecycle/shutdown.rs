//! Shutdown or reboot of the operating system, which waits for the agent, and the time at which it may continue.

use api::{condition, reason};
use drain::Millis;

use super::agent_state::{AgentState, ObservedNode};
use crate::cluster::Node;
use crate::notices::{ImdsNoticeKind, StoredNotice};

#[derive(Debug, Default)]
pub(super) struct Shutdown {
    /// Id of the shutdown that may continue.
    yielded: Option<String>,
}

impl Shutdown {
    /// Reports once for each shutdown whether it may continue now. Waiting has no purpose once the node is drained, if no order
    /// requires a drain, or if the Node does not exist. A reboot without a drain waits until the Node reports it, because its
    /// NodeClaim is kept for that reason. Waiting has no effect after the delay of logind ends.
    pub(super) fn yields(&mut self, known: &AgentState, now: Millis) -> bool {
        let Some(entry) = shutdown(known) else {
            self.yielded = None;
            return false;
        };
        let nothing_to_do = match known.seen {
            ObservedNode::Absent | ObservedNode::Foreign(_) => true,
            ObservedNode::Unknown | ObservedNode::Ours(_) => match known.journal.order {
                Some(_) => known.journal.outcome.is_some(),
                None => !awaits_report(known, entry),
            },
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
    known.journal.notices.active().find(|entry| entry.is_of_operating_system())
}

/// Reports whether the condition about a reboot is not on the Node yet.
fn awaits_report(known: &AgentState, entry: &StoredNotice) -> bool {
    let reported = |node: &Node| {
        let found = node.condition(condition::INTERRUPTED);
        found.is_some_and(|it| it.status == condition::TRUE && it.reason == reason::INSTANCE_REBOOT)
    };
    entry.notice.kind == ImdsNoticeKind::Reboot && known.journal.ours.reported && !known.node().is_some_and(reported)
}
