//! The agent's clock: it begins with the wall's time and then only counts what has passed since the machine booted, so that someone
//! who sets the wall clock moves no deadline. Its anchor is in the journal: a restart carries on with the same clock.

use drain::Millis;
use hyper::HeaderMap;
use hyper::header::DATE;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use nix::time::{ClockId, clock_gettime};

/// So far the wall clock may be ahead or behind before it counts as set. Slewing stays below.
const STEP: u64 = 2_000;

/// The moment that an answer carries, if that makes sense.
pub(crate) fn date(headers: &HeaderMap) -> Option<Timestamp> {
    let text = headers.get(DATE)?.to_str().ok()?;
    DateTimeParser::new().parse_timestamp(text).ok()
}

/// The agent's clock.
#[derive(Debug)]
pub struct Clock {
    anchor: i64,
    ahead: i64,
}

impl Clock {
    /// A clock with the anchor of an earlier start in this boot, or one that is right now.
    #[must_use]
    pub fn anchored(anchor: Option<i64>) -> Self {
        let mut clock = Self { anchor: anchor.unwrap_or_else(|| wall() - since_boot()), ahead: 0 };
        clock.look();
        clock
    }

    /// What to keep for the next start.
    #[must_use]
    pub fn anchor(&self) -> i64 {
        self.anchor
    }

    /// The moment by this clock.
    #[must_use]
    pub fn now(&self) -> Millis {
        Millis(u64::try_from(self.anchor.saturating_add(since_boot())).unwrap_or(0))
    }

    /// The moment by which something must have been sent.
    #[must_use]
    pub fn by(&self, moment: Millis) -> ClockOffset {
        ClockOffset(i64::try_from(moment.0).unwrap_or(i64::MAX).saturating_sub(self.anchor))
    }

    /// Looks at the wall: by how many milliseconds it is ahead, in steps, for what people and others read.
    pub fn look(&mut self) -> i64 {
        let ahead = wall().saturating_sub(self.anchor.saturating_add(since_boot()));
        self.ahead = settled(self.ahead, ahead);
        self.ahead
    }
}

/// The offset to go on with: small differences are slewing, and change nothing.
fn settled(known: i64, ahead: i64) -> i64 {
    if ahead.abs_diff(known) < STEP { known } else { ahead }
}

fn wall() -> i64 {
    Timestamp::now().as_millisecond()
}

fn since_boot() -> i64 {
    // Every Linux since 2.6.39 has it; without it the clock would stand still, and the wall's is better then.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or_else(|_| wall(), |at| at.tv_sec() * 1000 + at.tv_nsec() / 1_000_000)
}

/// A moment by which something must have been sent, in milliseconds since the boot. A machine or program that was stopped meanwhile is
/// late, and knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset(i64);

impl ClockOffset {
    /// Of what may be sent at any time.
    pub const EVER: Self = Self(i64::MAX);

    /// Whether it is too late.
    #[must_use]
    pub fn is_over(self) -> bool {
        since_boot() >= self.0
    }
}

/// The wall clock as it differs from the agent's, in milliseconds: how moments are written for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WallOffset(pub i64);

impl WallOffset {
    /// The wall's moment.
    #[must_use]
    pub fn wall_time(self, moment: Millis) -> Millis {
        Millis(moment.0.saturating_add_signed(self.0))
    }

    /// The agent's moment of a wall's one.
    #[must_use]
    pub fn ours(self, moment: Millis) -> Millis {
        Millis(moment.0.saturating_add_signed(self.0.saturating_neg()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slewing_is_not_followed_and_steps_are() {
        assert_eq!(settled(0, 1_999), 0);
        assert_eq!(settled(0, -3_600_000), -3_600_000);
        assert_eq!(settled(-3_600_000, -3_600_700), -3_600_000);
    }

    #[test]
    fn a_restart_goes_on_with_the_same_clock_whatever_the_wall_says() {
        let clock = Clock::anchored(Some(5_000));
        let again = Clock::anchored(Some(clock.anchor()));
        assert!(again.now().since(clock.now()).as_secs() < 2 && clock.now() <= again.now());
        let wall = WallOffset(-3_600_000);
        assert_eq!(wall.ours(wall.wall_time(Millis(10_000_000))), Millis(10_000_000));
    }

    #[test]
    fn what_was_to_be_sent_by_now_is_late() {
        let clock = Clock::anchored(None);
        let now = clock.now();
        let minute = std::time::Duration::from_secs(60);
        let late = [clock.by(now), clock.by(now - minute), clock.by(now + minute), ClockOffset::EVER]
            .map(ClockOffset::is_over);
        assert_eq!(late, [true, true, false, false]);
    }
}
