//! Schedule of price updates: every 12 hours at the latest, soon after a failure, and at different times in different
//! controllers of an account.

use std::time::Duration;

/// Maximum age of prices while AWS answers.
pub const REFRESH: Duration = Duration::from_secs(12 * 60 * 60);
/// Delay after the first failure.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Maximum delay after a failure.
const LAST_RETRY: Duration = Duration::from_secs(5 * 60);

/// Delays between price updates. Randomness is an input: equal seeds give equal delays.
#[derive(Clone, Debug)]
pub struct Schedule {
    seed: u64,
    failures: u32,
}

impl Schedule {
    /// Creates a schedule without previous updates.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, failures: 0 }
    }

    /// Returns the delay after an answer: [`REFRESH`] less a random part of up to 5 %.
    pub fn after_answer(&mut self) -> Duration {
        self.failures = 0;
        let share = self.draw();
        REFRESH - REFRESH / 20 * share / PARTS
    }

    /// Returns the delay after a failure. The delay doubles with each failure, less a random part of up to half.
    pub fn after_failure(&mut self) -> Duration {
        let whole = FIRST_RETRY.saturating_mul(1 << self.failures.min(16)).min(LAST_RETRY);
        self.failures = self.failures.saturating_add(1);
        let share = self.draw();
        whole - whole / 2 * share / PARTS
    }

    /// Returns a random number below [`PARTS`] (splitmix64).
    fn draw(&mut self) -> u32 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u32::try_from((mixed ^ (mixed >> 31)) % u64::from(PARTS)).unwrap_or(0)
    }
}

const PARTS: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_answer_spreads_delays_below_refresh() {
        let waits: Vec<Duration> = (0..100).map(|seed| Schedule::new(seed).after_answer()).collect();
        assert!(waits.iter().all(|wait| *wait <= REFRESH && *wait >= REFRESH * 19 / 20));
        assert!(waits.iter().collect::<std::collections::BTreeSet<_>>().len() > 50);
    }

    #[test]
    fn after_failure_doubles_the_delay_until_an_answer() {
        let mut schedule = Schedule::new(7);
        let waits: Vec<Duration> = (0..12).map(|_| schedule.after_failure()).collect();
        for (failures, wait) in waits.iter().enumerate() {
            let whole = Duration::from_secs(1 << failures).min(LAST_RETRY);
            assert!(*wait <= whole && *wait >= whole / 2, "{failures}: {wait:?}");
        }
        schedule.after_answer();
        assert!(schedule.after_failure() <= FIRST_RETRY);
    }
}
