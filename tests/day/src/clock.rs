//! The only clock of a simulation: a number that events move on.

use std::time::Duration;

use jiff::Timestamp;

/// Milliseconds since the Unix epoch.
pub type Moment = i64;

/// Milliseconds of a second.
pub const SECOND: i64 = 1_000;
/// Milliseconds of a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Milliseconds of an hour.
pub const HOUR: i64 = 60 * MINUTE;

/// When simulations begin: midnight of a Monday, UTC.
pub const START: Moment = 1_793_577_600_000;

/// The moment as the rest of Kerf says it.
#[must_use]
pub fn timestamp(at: Moment) -> Timestamp {
    Timestamp::from_millisecond(at).unwrap_or_default()
}

/// The moment as the drain says it.
#[must_use]
pub fn of_drain(at: Moment) -> drain::Millis {
    drain::Millis(u64::try_from(at).unwrap_or_default())
}

/// So many milliseconds, for those who count otherwise.
#[must_use]
pub fn span(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}
