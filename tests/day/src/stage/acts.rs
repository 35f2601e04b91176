//! Changes by the processes of the controller: no two of them act within the same second, and none acts after its end.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::{Moment, SECOND};

/// Changes of Kubernetes objects and of EC2, by process.
#[derive(Debug, Default)]
pub struct Acts {
    last: BTreeMap<usize, Moment>,
    ended: BTreeSet<usize>,
    /// Violations since the last look.
    pub problems: Vec<String>,
}

impl Acts {
    /// Records a change by a process.
    pub fn act(&mut self, process: usize, now: Moment) {
        if self.ended.contains(&process) {
            self.problems.push(format!("process {process} of the controller acts after its end"));
        }
        let other = self.last.iter().find(|(other, at)| **other != process && now - **at < SECOND);
        if let Some((other, at)) = other {
            let apart = now - at;
            self.problems.push(format!("processes {other} and {process} of the controller act within {apart} ms"));
        }
        self.last.insert(process, now);
    }

    /// Records the end of a process, whose lease another one may take immediately.
    pub fn end(&mut self, process: usize) {
        self.last.remove(&process);
        self.ended.insert(process);
    }
}
