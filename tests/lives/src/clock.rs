//! Clocks that are independent of the machine's clock.

use std::sync::LazyLock;
use std::time::Instant;

use cloud::fake::Clock;
use jiff::{SignedDuration, Timestamp};

static BEGIN: LazyLock<(Instant, Timestamp)> = LazyLock::new(|| (Instant::now(), Timestamp::now()));

/// Returns the time of tokio's clock. A paused clock advances as soon as all tasks wait.
#[must_use]
pub fn of_tokio() -> Timestamp {
    // The first access must come before everything else, because no event may be earlier.
    let (begin, moment) = *BEGIN;
    let passed = tokio::time::Instant::now().into_std().saturating_duration_since(begin);
    moment + SignedDuration::try_from(passed).unwrap()
}

/// Clock of tokio for the fake of EC2.
pub struct OfTokio;

impl Clock for OfTokio {
    fn now(&self) -> Timestamp {
        of_tokio()
    }
}
