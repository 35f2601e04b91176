//! EC2's API limits as token buckets: 50 mutating calls at once and then 5 per second, 100 describe calls and then 20 per
//! second.

use std::time::{Duration, Instant};

/// Bucket in thousandths of a call.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    level: u128,
    since: Instant,
    burst: u128,
    per_second: u128,
}

impl Bucket {
    fn full(burst: u128, per_second: u128, now: Instant) -> Self {
        Self { level: burst * 1000, since: now, burst, per_second }
    }

    /// Takes one call out of the bucket; returns false if there is none.
    fn take(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since).as_millis();
        self.since += Duration::from_millis(u64::try_from(passed).unwrap_or(u64::MAX));
        self.level = (self.level + passed * self.per_second).min(self.burst * 1000);
        let some = self.level >= 1000;
        self.level -= if some { 1000 } else { 0 };
        some
    }
}

/// Buckets of one account and region.
#[derive(Clone, Copy, Debug)]
pub(in crate::ec2wire) struct Quota {
    changes: Bucket,
    questions: Bucket,
}

impl Quota {
    pub(in crate::ec2wire) fn full(now: Instant) -> Self {
        Self { changes: Bucket::full(50, 5, now), questions: Bucket::full(100, 20, now) }
    }

    /// Reports whether EC2 accepts a call of `action`; a dry run counts as the mutating call.
    pub(in crate::ec2wire) fn take(&mut self, action: &str, now: Instant) -> bool {
        if action.starts_with("Describe") { self.questions.take(now) } else { self.changes.take(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, Quota};

    #[test]
    fn quota_permits_a_burst_and_then_a_rate_per_second() {
        let start = Instant::now();
        let mut quota = Quota::full(start);
        for (action, burst, per_second) in [("CreateFleet(DryRun)", 50, 5), ("DescribeInstances", 100, 20)] {
            let mut taken =
                |after: u64| (0..500).filter(|_| quota.take(action, start + Duration::from_millis(after))).count();
            let counts = [0, 0, 1000, 1500, 60_000].map(&mut taken);
            assert_eq!(counts, [burst, 0, per_second, per_second / 2, burst], "{action}");
        }
    }
}
