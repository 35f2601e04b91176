//! What goes wrong, path by path, and how often each path was asked for.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// One thing that goes wrong with one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This status with an empty body, whatever the request.
    Status(u16),
    /// The right answer, so much later.
    Delay(Duration),
    /// The right answer's head, so many bytes of its body, then the connection closes.
    CutBody(usize),
    /// The connection closes without an answer.
    Drop,
    /// No answer, ever.
    Hang,
}

/// The faults to come and the requests so far.
#[derive(Debug, Default)]
pub struct Script {
    queued: BTreeMap<String, VecDeque<Fault>>,
    standing: BTreeMap<String, Fault>,
    seen: BTreeMap<String, usize>,
}

impl Script {
    /// Appends faults for a path.
    pub fn queue(&mut self, path: &str, faults: impl IntoIterator<Item = Fault>) {
        self.queued.entry(path.to_owned()).or_default().extend(faults);
    }

    /// Sets or lifts the fault that stays.
    pub fn always(&mut self, path: &str, fault: Option<Fault>) {
        match fault {
            Some(fault) => self.standing.insert(path.to_owned(), fault),
            None => self.standing.remove(path),
        };
    }

    /// Counts a request and says what goes wrong with it.
    pub fn next(&mut self, path: &str) -> Option<Fault> {
        *self.seen.entry(path.to_owned()).or_default() += 1;
        let queued = self.queued.get_mut(path).and_then(VecDeque::pop_front);
        queued.or_else(|| self.standing.get(path).cloned())
    }

    /// How many requests came for a path.
    pub fn seen(&self, path: &str) -> usize {
        self.seen.get(path).copied().unwrap_or(0)
    }
}
