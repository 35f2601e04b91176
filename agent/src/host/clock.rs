//! The agent's clock. The clock starts with the wall time and then only adds the time since the boot of the machine. Setting
//! the wall clock therefore moves no deadline. The journal stores its anchor: a restart continues with the same clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use drain::Millis;
use hyper::HeaderMap;
use hyper::header::DATE;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use nix::time::{ClockId, clock_gettime};

/// Least difference, in milliseconds, by which the wall clock counts as set. Slewing remains below.
const STEP: u64 = 2_000;

/// Returns the time in the `Date` header of a response, if the header is valid.
pub(crate) fn date(headers: &HeaderMap) -> Option<Timestamp> {
    let text = headers.get(DATE)?.to_str().ok()?;
    DateTimeParser::new().parse_timestamp(text).ok()
}

/// Returns a time in RFC 3339 with whole seconds, as Kubernetes writes it.
#[must_use]
pub fn rfc3339(moment: Millis) -> String {
    let seconds = i64::try_from(moment.0 / 1000).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string()
}

/// The agent's clock.
#[derive(Debug)]
pub struct Clock {
    anchor: i64,
    ahead: i64,
}

impl Clock {
    /// Returns a clock with the anchor of an earlier start in this boot, or with the current wall time.
    #[must_use]
    pub fn anchored(anchor: Option<i64>) -> Self {
        let mut clock = Self { anchor: anchor.unwrap_or_else(|| wall() - since_boot()), ahead: 0 };
        clock.update();
        clock
    }

    /// Returns the anchor to store for the next start.
    #[must_use]
    pub fn anchor(&self) -> i64 {
        self.anchor
    }

    /// Returns the current time of this clock.
    #[must_use]
    pub fn now(&self) -> Millis {
        Millis(u64::try_from(self.anchor.saturating_add(since_boot())).unwrap_or(0))
    }

    /// Returns `moment` as a deadline for sending.
    #[must_use]
    pub fn by(&self, moment: Millis) -> ClockOffset {
        ClockOffset(i64::try_from(moment.0).unwrap_or(i64::MAX).saturating_sub(self.anchor))
    }

    /// Compares this clock with the wall clock. Returns how many milliseconds the wall clock is ahead, in steps, for times that
    /// others read.
    pub fn update(&mut self) -> i64 {
        let ahead = wall().saturating_sub(self.anchor.saturating_add(since_boot()));
        self.ahead = settled(self.ahead, ahead);
        self.ahead
    }
}

/// Returns the new offset. A small difference is slewing and changes nothing.
fn settled(known: i64, ahead: i64) -> i64 {
    if ahead.abs_diff(known) < STEP { known } else { ahead }
}

fn wall() -> i64 {
    Timestamp::now().as_millisecond()
}

fn since_boot() -> i64 {
    // Every Linux since 2.6.39 has this clock. Without it the agent's clock would not advance, so the wall clock is the better
    // one.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or_else(|_| wall(), |at| at.tv_sec() * 1000 + at.tv_nsec() / 1_000_000)
}

/// Deadline for sending, in milliseconds since the boot. A machine or program that was suspended in between detects by it that
/// it is too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset(i64);

impl ClockOffset {
    /// No deadline.
    pub const EVER: Self = Self(i64::MAX);

    /// Reports whether the deadline has passed.
    #[must_use]
    pub fn is_over(self) -> bool {
        since_boot() >= self.0
    }
}

/// Deadline of the request that a connection sends now. The connection checks it at each write.
#[derive(Clone, Debug)]
pub(crate) struct SharedDeadline(Arc<AtomicI64>);

impl SharedDeadline {
    pub(crate) fn new(by: ClockOffset) -> Self {
        Self(Arc::new(AtomicI64::new(by.0)))
    }

    pub(crate) fn set(&self, by: ClockOffset) {
        self.0.store(by.0, Ordering::Release);
    }

    pub(crate) fn get(&self) -> ClockOffset {
        ClockOffset(self.0.load(Ordering::Acquire))
    }
}

/// Offset of the wall clock from the agent's clock, in milliseconds. Times for others are written as wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallOffset(pub i64);

impl WallOffset {
    /// Converts a time of the agent's clock to wall time.
    #[must_use]
    pub fn wall_time(self, moment: Millis) -> Millis {
        Millis(moment.0.saturating_add_signed(self.0))
    }

    /// Converts wall time to the agent's clock.
    #[must_use]
    pub fn ours(self, moment: Millis) -> Millis {
        Millis(moment.0.saturating_add_signed(self.0.saturating_neg()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_changes_when_the_wall_clock_was_set() {
        assert_eq!(settled(0, 1_999), 0);
        assert_eq!(settled(0, -3_600_000), -3_600_000);
        assert_eq!(settled(-3_600_000, -3_600_700), -3_600_000);
    }

    #[test]
    fn clock_continues_when_anchored_again() {
        let clock = Clock::anchored(Some(5_000));
        let again = Clock::anchored(Some(clock.anchor()));
        assert!(again.now().since(clock.now()).as_secs() < 2 && clock.now() <= again.now());
        let wall = WallOffset(-3_600_000);
        assert_eq!(wall.ours(wall.wall_time(Millis(10_000_000))), Millis(10_000_000));
    }

    #[test]
    fn clock_offset_is_over_when_its_moment_has_passed() {
        let clock = Clock::anchored(None);
        let now = clock.now();
        let minute = std::time::Duration::from_secs(60);
        let late = [clock.by(now), clock.by(now - minute), clock.by(now + minute), ClockOffset::EVER]
            .map(ClockOffset::is_over);
        assert_eq!(late, [true, true, false, false]);
    }
}
