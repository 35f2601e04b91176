//! Delays between attempts, with a jitter from a seed. Pure, so that the retries of a whole fleet are predictable; the jitter
//! of `backon` differs in each run.

use std::time::Duration;

use daemon::backoff::doubled;

/// Exponential backoff with a ceiling. Each delay is between half and all of its nominal length, by a hash of seed and attempt.
/// Machines that boot together therefore retry at different times, and the same seed gives the same delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Nominal first delay.
    pub start: Duration,
    /// Nominal longest delay.
    pub ceiling: Duration,
    /// Seed, different on each machine.
    pub seed: u64,
}

impl Backoff {
    /// Returns the backoff of bootstrap: 250 ms, doubled up to 30 s.
    #[must_use]
    pub const fn bootstrap(seed: u64) -> Self {
        Self { start: Duration::from_millis(250), ceiling: Duration::from_secs(30), seed }
    }

    /// Returns the delay after the failed attempt number `attempt`, counted from 0.
    #[must_use]
    pub fn delay(&self, attempt: u32) -> Duration {
        let nominal = doubled(self.start, attempt, self.ceiling);
        let half = nominal / 2;
        half + half.mul_f64(fraction(self.seed ^ u64::from(attempt)))
    }
}

/// Returns a fraction below 1 from the splitmix64 finalizer.
pub(crate) fn fraction(seed: u64) -> f64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    f64::from(((mixed ^ (mixed >> 31)) >> 32) as u32) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_grows_to_the_ceiling_within_its_band() {
        for seed in 0..200 {
            let backoff = Backoff::bootstrap(seed);
            for attempt in 0..80 {
                let nominal = Duration::from_millis(250).saturating_mul(1 << attempt.min(20)).min(backoff.ceiling);
                let delay = backoff.delay(attempt);
                assert!(delay >= nominal / 2 && delay <= nominal, "{seed} {attempt} {delay:?}");
            }
        }
    }

    #[test]
    fn delay_differs_between_seeds() {
        let delays: std::collections::BTreeSet<_> = (0..100).map(|seed| Backoff::bootstrap(seed).delay(7)).collect();
        assert!(delays.len() > 95, "{} different waits", delays.len());
        assert_eq!(Backoff::bootstrap(1).delay(3), Backoff::bootstrap(1).delay(3));
    }
}
