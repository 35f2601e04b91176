//! A token bucket whose rate is halved when it was too high and creeps back. Pure.

use std::time::Duration;

/// How many calls at once, and how many a second after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Calls that a full bucket allows at once.
    pub burst: u32,
    /// Calls a second.
    pub per_second: u32,
}

const TOKEN: u64 = 1_000_000;
/// After a cut, refusals of calls that were under way by then say nothing new.
const DEAF: Duration = Duration::from_secs(1);
/// The rate never falls below this share of its limit.
const LEAST: u64 = 16;
/// Every call that is not refused wins this share of the limit back.
const STEPS: u64 = 50;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    limit: Rate,
    /// Thousandths of a call a second.
    rate: u64,
    /// Millionths of a token.
    level: u64,
    at: Duration,
    cut: Option<Duration>,
}

impl Bucket {
    /// A full bucket.
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

    /// How long until there is a token; zero when there is one.
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

    /// The service refused a call: what we took for its bucket is empty, and fills more slowly than we thought.
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
