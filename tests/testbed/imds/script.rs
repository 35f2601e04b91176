//! Faults by path, and the number of requests for each path.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Fault of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Response with this status and an empty body, for any request.
    Status(u16),
    /// Normal response after a delay.
    Delay(Duration),
    /// Normal head and so many bytes of the body, before the connection closes.
    CutBody(usize),
    /// Closed connection without a response.
    Drop,
    /// Request that never gets a response.
    Hang,
}

/// Scheduled faults and counted requests.
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

    /// Sets or removes the permanent fault.
    pub fn always(&mut self, path: &str, fault: Option<Fault>) {
        match fault {
            Some(fault) => self.standing.insert(path.to_owned(), fault),
            None => self.standing.remove(path),
        };
    }

    /// Counts a request and returns its fault.
    pub fn next(&mut self, path: &str) -> Option<Fault> {
        *self.seen.entry(path.to_owned()).or_default() += 1;
        let queued = self.queued.get_mut(path).and_then(VecDeque::pop_front);
        queued.or_else(|| self.standing.get(path).cloned())
    }

    /// Returns the number of requests for a path.
    pub fn seen(&self, path: &str) -> usize {
        self.seen.get(path).copied().unwrap_or(0)
    }
}
