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
use crate::state_machine::Drain;

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
pub const FORSAKEN: Duration = Duration::from_secs(60);

/// Delay before the next reading after a failed one; `LOOK_AT_MARK` applies while a mark exists.
const READ_AGAIN: Duration = Duration::from_secs(2);
const LOOK_AT_MARK: Duration = Duration::from_secs(10);
/// Time after which a reading without a result counts as failed.
const LOST: Duration = Duration::from_secs(15);

/// Result of the agent's reading of its Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentReport<'a> {
    /// Text of the controller's mark.
    pub mark: Option<&'a str>,
    /// `true` if the Node ever had a heartbeat of an agent. Without one, the controller does not wait for an agent.
    pub signed: bool,
}

/// Action of an agent before it may evict a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstOwner {
    /// Read the Node, with a read that sees all earlier writes.
    Read,
    /// Remove the mark from the Node if it still has this text, and read the Node.
    TakeBack(String),
}

/// State of an agent about the drain owner of its node. The state is not stored, so a restarted agent reads the Node first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentLiveness {
    /// Start of the latest reading that found no mark.
    clear: Option<Millis>,
    mark: Option<Mark>,
    /// Start of the current reading.
    reading: Option<Millis>,
    /// Time of the earliest next reading.
    next: Millis,
}

/// A mark as an agent has read it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    words: String,
    /// Time at which this text was first read.
    since: Millis,
    /// Time at which this text was last read.
    seen: Millis,
    /// `true` if the agent may remove the mark.
    forsaken: bool,
}

impl AgentLiveness {
    /// Returns the time until which pods may be evicted, or `None` if no pod may be evicted now.
    #[must_use]
    pub fn until(&self, now: Millis) -> Option<Millis> {
        self.clear.map(|began| began + READING_HOLDS).filter(|until| now < *until)
    }

    /// Reports whether the controller owns the drain.
    #[must_use]
    pub fn is_relieved(&self) -> bool {
        self.mark.is_some()
    }

    /// Returns the action that an agent needs before it may evict pods, and records it as started.
    pub fn first(&mut self, now: Millis) -> Option<FirstOwner> {
        if self.poll_timeout(now) > now {
            return None;
        }
        self.reading = Some(now);
        let forsaken = self.mark.as_ref().filter(|mark| mark.forsaken);
        Some(forsaken.map_or(FirstOwner::Read, |mark| FirstOwner::TakeBack(mark.words.clone())))
    }

    /// Returns the time of the next action of [`Self::first`].
    #[must_use]
    pub fn poll_timeout(&self, now: Millis) -> Millis {
        self.reading.map_or(self.next, |since| since + LOST).max(now)
    }

    /// Processes a reading that began at `began`; `None` for a failed reading.
    pub fn read(&mut self, began: Millis, now: Millis, reading: Option<AgentReport<'_>>) {
        self.reading = None;
        self.next = now + if self.is_relieved() { LOOK_AT_MARK } else { READ_AGAIN };
        let Some(AgentReport { mark, signed }) = reading else {
            return;
        };
        if let Some(words) = mark {
            self.saw(words, now);
            self.next = now + LOOK_AT_MARK;
            if let Some(mark) = self.mark.as_mut().filter(|mark| began >= mark.since + FORSAKEN) {
                mark.forsaken = true;
                self.next = now + READ_AGAIN;
            }
        } else if signed && self.mark.as_ref().is_none_or(|mark| began >= mark.seen) {
            (self.mark, self.clear) = (None, self.clear.max(Some(began)));
        }
    }

    /// Records that the Node had this mark: the agent evicts no more pods.
    pub fn saw(&mut self, words: &str, now: Millis) {
        self.clear = None;
        match &mut self.mark {
            Some(mark) if mark.words == words => mark.seen = now,
            _ => self.mark = Some(Mark { words: words.to_owned(), since: now, seen: now, forsaken: false }),
        }
    }
}

impl Drain {
    /// Returns the time until which the controller may evict pods with the mark that it wrote at `signed`. `None` requests that
    /// the controller writes a mark first. `agent` reports that the node ever had a heartbeat of an agent.
    pub fn relieve(&mut self, now: Millis, signed: Option<Millis>, agent: bool) -> Option<Millis> {
        let Some(signed) = signed else {
            (self.quiet, self.signed) = (None, true);
            return None;
        };
        self.quiet.get_or_insert(now + if agent { QUIET } else { Duration::ZERO });
        let until = signed + MARK_HOLDS;
        let holds = self.signed && signed <= now && now < until;
        let waits = !self.wants(now) || self.is_quiet(now);
        self.signed |= !holds && !waits;
        (holds || waits).then_some(until)
    }

    /// Records that the controller writes a mark on its own initiative. A mark that the controller finds without having written
    /// one belongs to another controller, with another clock.
    pub fn sign(&mut self) {
        self.signed = true;
    }
}
