//! Clocks that do not run as the machine's does.

use std::sync::LazyLock;
use std::time::Instant;

use cloud::fake::Clock;
use jiff::{SignedDuration, Timestamp};

static BEGIN: LazyLock<(Instant, Timestamp)> = LazyLock::new(|| (Instant::now(), Timestamp::now()));

/// The time as tokio has it: where that is paused, it passes as soon as everybody waits.
#[must_use]
pub fn of_tokio() -> Timestamp {
    // First of all, for nothing may have happened before it.
    let (begin, moment) = *BEGIN;
    let passed = tokio::time::Instant::now().into_std().saturating_duration_since(begin);
    moment + SignedDuration::try_from(passed).unwrap()
}

/// The same for the fake of EC2.
pub struct OfTokio;

impl Clock for OfTokio {
    fn now(&self) -> Timestamp {
        of_tokio()
    }
}
