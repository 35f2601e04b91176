//! Simulated clock: a number that only events advance.

use std::time::Duration;

use jiff::Timestamp;
use simulator::clock::of_tokio;

/// Milliseconds since the Unix epoch.
pub type Moment = i64;

/// Number of milliseconds in a second.
pub const SECOND: i64 = 1_000;
/// Number of milliseconds in a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Number of milliseconds in an hour.
pub const HOUR: i64 = 60 * MINUTE;

/// Start of each simulation: midnight of a Monday, UTC.
pub const START: Moment = 1_793_577_600_000;

/// Returns the current moment of the simulation on this thread.
#[must_use]
pub fn moment() -> Moment {
    of_tokio().as_millisecond()
}

/// Converts a moment into the timestamp type of the other crates.
#[must_use]
pub fn timestamp(at: Moment) -> Timestamp {
    Timestamp::from_millisecond(at).unwrap_or_default()
}

/// Converts milliseconds into a `Duration`.
#[must_use]
pub fn span(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}
