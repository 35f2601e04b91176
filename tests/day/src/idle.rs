//! Order of plans and tasks. A plan is made on a thread of its own, so its end would come earlier or later among the tasks of
//! the same moment, as fast as the machine is. A plan that begins when all tasks wait ends while they wait, so a simulation with
//! a seed repeats exactly.

use std::sync::{Condvar, Mutex, PoisonError};

/// Reports when all tasks of a runtime with one thread wait.
#[derive(Debug, Default)]
pub struct Idle {
    waits: Mutex<bool>,
    changed: Condvar,
}

impl Idle {
    /// Records whether the thread of the tasks waits.
    pub fn set(&self, waits: bool) {
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner) = waits;
        self.changed.notify_all();
    }

    /// Blocks this thread until the thread of the tasks waits.
    pub fn wait(&self) {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(waits, |waits| !*waits).unwrap_or_else(PoisonError::into_inner));
    }
}
