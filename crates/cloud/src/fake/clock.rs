//! Clocks of the fake: a manual clock for tests, and the system clock for demos.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// The source of the fake's time.
pub trait Clock: Send + Sync {
    /// Returns the current time, which never goes back.
    fn now(&self) -> Timestamp;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that only a test advances; clones share their time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Timestamp>>);

impl ManualClock {
    /// Creates a clock that shows `start`.
    #[must_use]
    pub fn at(start: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(start)))
    }

    /// Advances the clock; a negative duration does nothing.
    pub fn advance(&self, by: SignedDuration) {
        let mut now = self.0.lock();
        if let Ok(later) = now.checked_add(by) {
            *now = (*now).max(later);
        }
    }
}

impl Default for ManualClock {
    /// Starts at an arbitrary, fixed time.
    fn default() -> Self {
        Self::at(Timestamp::constant(1_790_000_000, 0))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}
