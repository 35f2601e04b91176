//! Delays between attempts: doubled from a first delay up to a longest one.
//!
//! The crate `backon` repeats a closure instead. The loops here log, count and change their state between attempts, and need
//! only the next delay.

use std::time::Duration;

/// Delays of one loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryDelays {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl RetryDelays {
    /// Returns delays from `first` up to `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: 0 }
    }

    /// Returns the delay after one more failure.
    #[must_use]
    pub fn next_delay(&mut self) -> Duration {
        let delay = doubled(self.first, self.failures, self.longest);
        self.failures = self.failures.saturating_add(1);
        delay
    }

    /// Starts again with the first delay, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Returns a duration that is doubled `times` times, up to `longest`.
#[must_use]
pub fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    first.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn next_delay_doubles_to_the_longest_until_reset() {
        let seconds = Duration::from_secs;
        let mut delays = RetryDelays::new(seconds(1), seconds(5));
        let found: Vec<Duration> = (0..5).map(|_| delays.next_delay()).collect();
        assert_eq!(found, [1, 2, 4, 5, 5].map(seconds));
        delays.reset();
        assert_eq!(delays.next_delay(), seconds(1));
    }

    #[test]
    fn doubled_is_the_longest_when_the_factor_overflows() {
        for times in [31, 32, u32::MAX] {
            assert_eq!(doubled(Duration::from_secs(1), times, Duration::from_secs(60)), Duration::from_secs(60));
        }
    }
}
