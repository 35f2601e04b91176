//! How long to wait before asking again: pure, so that a fleet's worth of retries can be reasoned about.

use std::time::Duration;

/// Exponential waits with a ceiling. Each is between half and all of its nominal length, by a hash of seed and
/// attempt: machines that boot together ask apart, and the same seed gives the same waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// Nominal first wait.
    pub start: Duration,
    /// Nominal longest wait.
    pub ceiling: Duration,
    /// Differs between machines.
    pub seed: u64,
}

impl Backoff {
    /// The waits of bootstrap: 250 ms doubling up to 30 s.
    #[must_use]
    pub const fn bootstrap(seed: u64) -> Self {
        Self { start: Duration::from_millis(250), ceiling: Duration::from_secs(30), seed }
    }

    /// The wait after the failed attempt number `attempt`, counted from 0.
    #[must_use]
    pub fn delay(&self, attempt: u32) -> Duration {
        let factor = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX);
        let nominal = self.start.saturating_mul(factor).min(self.ceiling);
        let half = nominal / 2;
        half + half.mul_f64(fraction(self.seed ^ u64::from(attempt)))
    }
}

/// A fraction below 1 from the splitmix64 finalizer.
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
    fn waits_grow_to_the_ceiling_and_never_leave_their_band() {
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
    fn machines_that_boot_together_ask_apart() {
        let delays: std::collections::BTreeSet<_> = (0..100).map(|seed| Backoff::bootstrap(seed).delay(7)).collect();
        assert!(delays.len() > 95, "{} different waits", delays.len());
        assert_eq!(Backoff::bootstrap(1).delay(3), Backoff::bootstrap(1).delay(3));
    }
}
