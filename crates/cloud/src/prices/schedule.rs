//! When prices are asked for again: every 12 hours at the latest, soon after a failure, and never all controllers of an
//! account at the same moment.

use std::time::Duration;

/// How old prices become at most while AWS answers (aws 5).
pub const REFRESH: Duration = Duration::from_secs(12 * 60 * 60);
/// How long to wait after the first failure.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// How long to wait at most after a failure.
const LAST_RETRY: Duration = Duration::from_secs(5 * 60);

/// When to ask again. Chance is an input: equal seeds wait equally.
#[derive(Clone, Debug)]
pub struct Schedule {
    seed: u64,
    failures: u32,
}

impl Schedule {
    /// A schedule that nobody has asked yet.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, failures: 0 }
    }

    /// How long to wait after an answer: up to a twentieth less than [`REFRESH`].
    pub fn after_answer(&mut self) -> Duration {
        self.failures = 0;
        let share = self.draw();
        REFRESH - REFRESH / 20 * share / PARTS
    }

    /// How long to wait after a failure: twice as long each time, by chance down to half of it.
    pub fn after_failure(&mut self) -> Duration {
        let whole = FIRST_RETRY.saturating_mul(1 << self.failures.min(16)).min(LAST_RETRY);
        self.failures = self.failures.saturating_add(1);
        let share = self.draw();
        whole - whole / 2 * share / PARTS
    }

    /// A number below [`PARTS`] (splitmix64).
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
    fn answers_are_asked_for_in_time_and_not_by_all_at_once() {
        let waits: Vec<Duration> = (0..100).map(|seed| Schedule::new(seed).after_answer()).collect();
        assert!(waits.iter().all(|wait| *wait <= REFRESH && *wait >= REFRESH * 19 / 20));
        assert!(waits.iter().collect::<std::collections::BTreeSet<_>>().len() > 50);
    }

    #[test]
    fn failures_are_tried_again_ever_later_and_forgotten_after_an_answer() {
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
