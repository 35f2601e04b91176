//! When a report is due: at once when it says something new, every five minutes when it does not, never two within 30 s.

use std::time::Duration;

use super::report::ReportSummary;

/// Never two writes closer than this.
const CLOSEST: Duration = Duration::from_secs(30);
/// Never a silence longer than this, looks included; the longest wait after refusals too.
const LONGEST: Duration = Duration::from_secs(300);
/// A fleet that started at once must not report at once for ever.
const SPREAD: u64 = 60;
/// Of the silence, kept for the look and the write themselves.
const RESERVE: Duration = Duration::from_secs(15);

/// What was written when. Moments are of a clock that nobody sets.
#[derive(Debug)]
pub(super) struct SampleTiming {
    every: Duration,
    tried: Option<Duration>,
    failures: u32,
    written: Option<(Duration, ReportSummary)>,
}

impl SampleTiming {
    /// `seed` differs between machines; `period` is that of looks.
    pub(super) fn new(seed: u64, period: Duration) -> Self {
        let spread = Duration::from_secs(seed % SPREAD);
        Self {
            every: LONGEST.saturating_sub(RESERVE + period + spread).max(CLOSEST),
            tried: None,
            failures: 0,
            written: None,
        }
    }

    /// Whether to write now.
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

    /// A write has ended.
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

    /// The gist of a machine that has killed so many processes.
    fn gist(oom_kills: u64) -> ReportSummary {
        let now = Timestamp::UNIX_EPOCH;
        let mut history = History::new(now);
        let node = NodeSample { cpu: Some(1), memory: Some(1), oom_kills, ..NodeSample::default() };
        history.take(&UsageSample { node, pods: Vec::new() }, 2, 10, now);
        ReportSummary::from_history(&mut history, now)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// Two hours of looks: news or none, an API server that refuses now and then.
        #[test]
        fn writes_keep_their_distance_and_silence_ends(
            seed: u64,
            news in proptest::collection::vec(0..20_u64, 720),
            refusals in proptest::collection::vec(any::<bool>(), 720),
            refuses: bool,
        ) {
            let period = Duration::from_secs(10);
            let mut pace = SampleTiming::new(seed, period);
            let (mut kills, mut tried, mut written) = (0, None, None);
            for (look, (new, refused)) in (0_u32..).zip(news.iter().zip(&refusals)) {
                let now = period * look;
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
    fn news_is_written_at_once_but_not_twice_in_30_seconds() {
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
