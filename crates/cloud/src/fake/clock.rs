//! Time for the fake: a test turns it by hand, a demo lets it run.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// Where the fake reads the time.
pub trait Clock: Send + Sync {
    /// The present moment; never goes back.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that stands still until a test turns it; clones share the hands.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Timestamp>>);

impl ManualClock {
    /// A clock that shows `start`.
    #[must_use]
    pub fn at(start: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(start)))
    }

    /// Turns the clock forward; a negative duration does nothing.
    pub fn advance(&self, by: SignedDuration) {
        let mut now = self.0.lock();
        if let Ok(later) = now.checked_add(by) {
            *now = (*now).max(later);
        }
    }
}

impl Default for ManualClock {
    /// Starts at an arbitrary, fixed moment.
    fn default() -> Self {
        Self::at(Timestamp::constant(1_790_000_000, 0))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}
