//! Drain owner of a node: its agent, or the controller if the agent does not drain. Never both at once, and never neither.
//!
//! Agent and controller coordinate only through the Node object. Before the controller evicts a pod, it writes a *mark* to the
//! Node, and renews the mark later. The agent evicts pods only after a *reading* of the Node without a mark. A reading is valid
//! for a few seconds, and a request arrives within seconds or never. So a while after the mark, no request of the agent can
//! arrive any more, even if the agent was blocked for a long time. In the same way, a mark that is not renewed becomes invalid
//! after a while, and the agent may remove it. Each side writes only on top of the version that it has read. So a write fails
//! if the other side has changed the Node meanwhile.

use std::time::Duration;

use crate::moment::Millis;

/// Validity of a reading, from its start. The agent evicts no pod with an older reading.
pub const READING_HOLDS: Duration = Duration::from_secs(10);
/// Maximum delay between the decision for a request and its arrival. After this time the sender gives up and drops its
/// connection.
pub const ARRIVES: Duration = Duration::from_secs(5);
/// Delay between the controller's first sight of its own mark and its first eviction, if the node has an agent. The delay
/// covers a reading from before the mark, a request that depends on the reading, and a margin for different clocks.
pub const QUIET: Duration = Duration::from_secs(20);
/// Validity of a mark. The controller evicts no pod with an older mark, but renews the mark first.
pub const MARK_HOLDS: Duration = Duration::from_secs(30);
/// Time after which an agent removes a mark that has not changed. A live controller renews its mark sooner, and the requests of
/// a dead one arrived long ago.
pub const MARK_ABANDONED: Duration = Duration::from_secs(60);

/// Delay before the next reading after a failed one; `READ_MARK_AGAIN` applies while a mark exists.
const READ_AGAIN: Duration = Duration::from_secs(2);
const READ_MARK_AGAIN: Duration = Duration::from_secs(10);
/// Time after which a reading without a result counts as failed.
const LOST: Duration = Duration::from_secs(15);

/// Result of the agent's reading of its Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeReading<'a> {
    /// Text of the controller's mark.
    pub mark: Option<&'a str>,
    /// `true` if the Node ever had a heartbeat of an agent. Without one, the controller does not wait for an agent.
    pub has_heartbeat: bool,
}

/// Action of an agent before it may evict a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnershipStep {
    /// Read the Node, with a read that sees all earlier writes.
    Read,
    /// Remove the mark from the Node if it still has this text, and read the Node.
    RemoveMark(String),
}

/// State of an agent about the drain owner of its node. The state is not stored, so a restarted agent reads the Node first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentOwnership {
    owner: Owner,
    /// Start of the current reading.
    reading: Option<Millis>,
    /// Time of the earliest next reading.
    next: Millis,
}

/// Drain owner as the agent has read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Owner {
    /// No successful reading yet.
    #[default]
    Unknown,
    /// The agent: the latest reading found no mark.
    Agent {
        /// Start of the reading.
        began: Millis,
    },
    /// The controller, by its mark.
    Controller(Mark),
}

/// A mark as an agent has read it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    text: String,
    /// Time at which this text was first read.
    since: Millis,
    /// Time at which this text was last read.
    seen: Millis,
    /// `true` if the agent may remove the mark.
    removable: bool,
}

impl AgentOwnership {
    /// Returns the time until which pods may be evicted, or `None` if no pod may be evicted now.
    #[must_use]
    pub fn until(&self, now: Millis) -> Option<Millis> {
        match self.owner {
            Owner::Agent { began } => Some(began + READING_HOLDS).filter(|until| now < *until),
            Owner::Unknown | Owner::Controller(_) => None,
        }
    }

    /// Reports whether the controller owns the drain.
    #[must_use]
    pub fn is_controller_owner(&self) -> bool {
        matches!(self.owner, Owner::Controller(_))
    }

    /// Returns the action that an agent needs before it may evict pods, and records it as started.
    pub fn first(&mut self, now: Millis) -> Option<OwnershipStep> {
        if self.poll_timeout(now) > now {
            return None;
        }
        self.reading = Some(now);
        Some(match &self.owner {
            Owner::Controller(mark) if mark.removable => OwnershipStep::RemoveMark(mark.text.clone()),
            _ => OwnershipStep::Read,
        })
    }

    /// Returns the time of the next action of [`Self::first`].
    #[must_use]
    pub fn poll_timeout(&self, now: Millis) -> Millis {
        self.reading.map_or(self.next, |since| since + LOST).max(now)
    }

    /// Processes a reading that began at `began`; `None` for a failed reading.
    pub fn read(&mut self, began: Millis, now: Millis, reading: Option<NodeReading<'_>>) {
        self.reading = None;
        self.next = now + if self.is_controller_owner() { READ_MARK_AGAIN } else { READ_AGAIN };
        let Some(NodeReading { mark, has_heartbeat }) = reading else {
            return;
        };
        if let Some(text) = mark {
            self.observe_mark(text, now);
            self.next = now + READ_MARK_AGAIN;
            if let Owner::Controller(mark) = &mut self.owner
                && began >= mark.since + MARK_ABANDONED
            {
                mark.removable = true;
                self.next = now + READ_AGAIN;
            }
        } else if has_heartbeat {
            self.observe_no_mark(began);
        }
    }

    /// Records that the Node had this mark: the agent evicts no more pods.
    pub fn observe_mark(&mut self, text: &str, now: Millis) {
        match &mut self.owner {
            Owner::Controller(mark) if mark.text == text => mark.seen = now,
            _ => {
                let mark = Mark { text: text.to_owned(), since: now, seen: now, removable: false };
                self.owner = Owner::Controller(mark);
            }
        }
    }

    /// Records that a reading found no mark, unless a mark was read after its start.
    fn observe_no_mark(&mut self, began: Millis) {
        self.owner = match &self.owner {
            Owner::Controller(mark) if began < mark.seen => return,
            Owner::Agent { began: earlier } => Owner::Agent { began: began.max(*earlier) },
            Owner::Controller(_) | Owner::Unknown => Owner::Agent { began },
        };
    }
}
