//! Whose hands a node is in. Its agent drains it, and the controller when the agent does not: never both at once, and never neither.
//!
//! They know of each other by the Node alone. The controller signs there before it asks for any pod, by a *mark* that it renews; the
//! agent asks for pods only on the strength of a *reading* of the Node without a mark. A reading holds for a few seconds and a request
//! arrives soon or never, so a while after the mark nothing of the agent's can arrive any more, however long the agent had hung before
//! it goes on. In the same way a mark that is not renewed is worth nothing after a while, and the agent may take it away. Each writes
//! only over what it has seen, so it sees what the other did meanwhile, or does nothing.

use std::time::Duration;

use crate::moment::Millis;
use crate::state_machine::Drain;

/// An agent asks for no pod on the strength of a reading of its Node that began so long ago.
pub const READING_HOLDS: Duration = Duration::from_secs(10);
/// A request arrives within this time after it was decided, or never: its sender gives up and drops its connection.
pub const ARRIVES: Duration = Duration::from_secs(5);
/// So long after the controller has first seen its mark it asks for the first pod, where the node has an agent: a reading from before
/// the mark, a request on its strength, and some more for clocks that do not run alike.
pub const QUIET: Duration = Duration::from_secs(20);
/// A controller asks for no pod on the strength of a mark that is older: it signs anew first.
pub const MARK_HOLDS: Duration = Duration::from_secs(30);
/// An agent that has read the same mark for so long takes it away. A controller that lives renews it sooner, and what one that died has
/// sent arrived long ago.
pub const FORSAKEN: Duration = Duration::from_secs(60);

/// Between two readings that a drain waits for, while they fail and while a mark stands.
const READ_AGAIN: Duration = Duration::from_secs(2);
const LOOK_AT_MARK: Duration = Duration::from_secs(10);
/// A reading that has not come by then will not.
const LOST: Duration = Duration::from_secs(15);

/// What an agent has read of its Node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentReport<'a> {
    /// The controller's mark, word by word.
    pub mark: Option<&'a str>,
    /// Whether the Node has ever had a sign of life of an agent. Without one the controller does not wait for anyone.
    pub signed: bool,
}

/// What an agent has to do before it may ask for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstOwner {
    /// Read the Node, from where all writes are seen.
    Read,
    /// Take the mark off the Node, if it still has these words, and read it.
    TakeBack(String),
}

/// What an agent knows of whose hands its node is in. It is not kept anywhere: who has just started reads first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentLiveness {
    /// When the reading began that found no mark.
    clear: Option<Millis>,
    mark: Option<Mark>,
    /// The Node is being read since then.
    reading: Option<Millis>,
    /// Not to be read again before.
    next: Millis,
}

/// A mark as an agent has seen it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    words: String,
    /// First seen with these words.
    since: Millis,
    /// Last seen.
    seen: Millis,
    /// It may be taken away.
    forsaken: bool,
}

impl AgentLiveness {
    /// Until when pods may be asked for, if they may be now.
    #[must_use]
    pub fn until(&self, now: Millis) -> Option<Millis> {
        self.clear.map(|began| began + READING_HOLDS).filter(|until| now < *until)
    }

    /// Whether the controller has the drain.
    #[must_use]
    pub fn is_relieved(&self) -> bool {
        self.mark.is_some()
    }

    /// What to do first, for who wants to ask and may not. It counts as under way.
    pub fn first(&mut self, now: Millis) -> Option<FirstOwner> {
        if self.poll_timeout(now) > now {
            return None;
        }
        self.reading = Some(now);
        let forsaken = self.mark.as_ref().filter(|mark| mark.forsaken);
        Some(forsaken.map_or(FirstOwner::Read, |mark| FirstOwner::TakeBack(mark.words.clone())))
    }

    /// When [`Self::first`] has something to do.
    #[must_use]
    pub fn poll_timeout(&self, now: Millis) -> Millis {
        self.reading.map_or(self.next, |since| since + LOST).max(now)
    }

    /// Takes in a reading that began at `began`; `None` came to nothing.
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

    /// The Node was seen with this mark: nothing more is asked for.
    pub fn saw(&mut self, words: &str, now: Millis) {
        self.clear = None;
        match &mut self.mark {
            Some(mark) if mark.words == words => mark.seen = now,
            _ => self.mark = Some(Mark { words: words.to_owned(), since: now, seen: now, forsaken: false }),
        }
    }
}

impl Drain {
    /// For a controller whose turn it is: until when it may ask for pods on the strength of the mark that it signed at `signed`. `None`
    /// asks it to sign first. `agent` says whether the node has ever had a sign of life of an agent.
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

    /// The controller signs of its own accord. A mark that it finds without having signed is another one's, by another clock.
    pub fn sign(&mut self) {
        self.signed = true;
    }
}
