//! A token bucket whose rate is halved when it was too high and recovers gradually. Pure.

use std::time::Duration;

/// Burst and rate of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Calls that a full bucket admits at once.
    pub burst: u32,
    /// Calls per second.
    pub per_second: u32,
}

const TOKEN: u64 = 1_000_000;
/// Time after a cut in which further throttling is ignored, because those calls were already in flight.
const DEAF: Duration = Duration::from_secs(1);
/// Divisor for the minimum rate: the rate never falls below 1/16 of its limit.
const LEAST: u64 = 16;
/// Divisor for the recovery: each successful call adds 1/50 of the limit.
const STEPS: u64 = 50;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    limit: Rate,
    /// Rate in thousandths of a call per second.
    rate: u64,
    /// Level in millionths of a token.
    level: u64,
    at: Duration,
    cut: Option<Duration>,
}

impl Bucket {
    /// Creates a full bucket.
    pub(super) fn new(limit: Rate) -> Self {
        let level = u64::from(limit.burst) * TOKEN;
        Self { limit, rate: u64::from(limit.per_second) * 1000, level, at: Duration::ZERO, cut: None }
    }

    pub(super) fn rate(&self) -> Rate {
        self.limit
    }

    pub(super) fn per_mille(&self) -> u64 {
        self.rate
    }

    /// Returns the time until a token is available; zero if one is available now.
    pub(super) fn wait(&mut self, now: Duration) -> Duration {
        let passed = u64::try_from(now.saturating_sub(self.at).as_micros()).unwrap_or(u64::MAX);
        let full = u64::from(self.limit.burst) * TOKEN;
        self.level = self.level.saturating_add(passed.saturating_mul(self.rate) / 1000).min(full);
        self.at = self.at.max(now);
        let missing = TOKEN.saturating_sub(self.level);
        Duration::from_micros((missing * 1000).div_ceil(self.rate.max(1)))
    }

    pub(super) fn take(&mut self) {
        self.level = self.level.saturating_sub(TOKEN);
    }

    /// Empties the bucket and halves its rate after the service throttled a call.
    pub(super) fn cut(&mut self, now: Duration) {
        if self.cut.is_some_and(|cut| now.saturating_sub(cut) < DEAF) {
            return;
        }
        let least = u64::from(self.limit.per_second) * 1000 / LEAST;
        self.rate = (self.rate / 2).max(least);
        self.level = 0;
        self.cut = Some(now);
    }

    pub(super) fn grow(&mut self) {
        let most = u64::from(self.limit.per_second) * 1000;
        self.rate = (self.rate + (most / STEPS).max(1)).min(most);
    }
}
