//! Schedule of reports: at once after a change, every five minutes without one, and never two within 30 s.

use std::time::Duration;

use super::report::ReportSummary;

/// Least interval between two writes.
const CLOSEST: Duration = Duration::from_secs(30);
/// Greatest interval between two writes, including the sample period; also the longest wait after failures.
const LONGEST: Duration = Duration::from_secs(300);
/// Seconds over which the intervals of machines are spread, so that a fleet that started together does not report together
/// forever.
const SPREAD: u64 = 60;
/// Part of the greatest interval that is reserved for the sample and the write themselves.
const RESERVE: Duration = Duration::from_secs(15);

/// Times of writes. All times are of a monotonic clock.
#[derive(Debug)]
pub(super) struct SampleTiming {
    every: Duration,
    tried: Option<Duration>,
    failures: u32,
    written: Option<(Duration, ReportSummary)>,
}

impl SampleTiming {
    /// Returns a schedule without writes. `seed` differs between machines; `period` is that of samples.
    pub(super) fn new(seed: u64, period: Duration) -> Self {
        let spread = Duration::from_secs(seed % SPREAD);
        Self {
            every: LONGEST.saturating_sub(RESERVE + period + spread).max(CLOSEST),
            tried: None,
            failures: 0,
            written: None,
        }
    }

    /// Reports whether a write is due now.
    pub(super) fn is_due(&self, gist: &ReportSummary, now: Duration) -> bool {
        let doubled = CLOSEST.saturating_mul(1 << self.failures.min(4));
        if self.tried.is_some_and(|tried| now.saturating_sub(tried) < doubled.min(LONGEST)) {
            return false;
        }
        match &self.written {
            None => true,
            Some((at, last)) => now.saturating_sub(*at) >= self.every || last.differs(gist),
        }
    }

    /// Records the end of a write.
    pub(super) fn ended(&mut self, taken: bool, gist: ReportSummary, now: Duration) {
        self.tried = Some(now);
        self.failures = if taken { 0 } else { self.failures.saturating_add(1) };
        if taken {
            self.written = Some((now, gist));
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;
    use crate::usage::history::History;
    use crate::usage::sampler::{NodeSample, UsageSample};

    /// Returns the summary of a machine with this number of OOM kills.
    fn gist(oom_kills: u64) -> ReportSummary {
        let now = Timestamp::UNIX_EPOCH;
        let mut history = History::new(now);
        let node = NodeSample { cpu: Some(1), memory: Some(1), oom_kills, ..NodeSample::default() };
        history.take(&UsageSample { node, pods: Vec::new() }, 2, 10, now);
        ReportSummary::from_history(&mut history, now)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Simulates two hours of samples, with and without changes, and with an API server that sometimes refuses.
        #[test]
        fn is_due_keeps_intervals_between_30_s_and_5_min(
            seed: u64,
            news in proptest::collection::vec(0..20_u64, 720),
            refusals in proptest::collection::vec(any::<bool>(), 720),
            refuses: bool,
        ) {
            let period = Duration::from_secs(10);
            let mut pace = SampleTiming::new(seed, period);
            let (mut kills, mut tried, mut written) = (0, None, None);
            for (round, (new, refused)) in (0_u32..).zip(news.iter().zip(&refusals)) {
                let now = period * round;
                kills += u64::from(*new == 0);
                if pace.is_due(&gist(kills), now) {
                    prop_assert!(tried.is_none_or(|at| now - at >= CLOSEST), "{tried:?} {now:?}");
                    tried = Some(now);
                    let taken = !(refuses && *refused);
                    pace.ended(taken, gist(kills), now);
                    written = if taken { Some(now) } else { written };
                }
                prop_assert!(tried.is_some_and(|at| now - at < LONGEST), "silent since {tried:?} at {now:?}");
                if !refuses {
                    prop_assert!(written.is_some_and(|at| now - at < LONGEST));
                }
            }
        }
    }

    #[test]
    fn is_due_returns_true_after_a_change_and_30_s() {
        let mut pace = SampleTiming::new(0, Duration::from_secs(10));
        let at = Duration::from_secs;
        assert!(pace.is_due(&gist(0), at(0)));
        pace.ended(true, gist(0), at(0));
        assert!(!pace.is_due(&gist(1), at(29)));
        assert!(pace.is_due(&gist(1), at(30)) && !pace.is_due(&gist(0), at(30)));
        pace.ended(false, gist(1), at(30));
        assert!(!pace.is_due(&gist(1), at(60)) && pace.is_due(&gist(1), at(90)), "further apart after a refusal");
    }
}
