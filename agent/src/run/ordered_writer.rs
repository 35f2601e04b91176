//! Rate limit for one kind of write: one write at a time, with a minimum interval that grows while the API server refuses.

use std::time::Duration;

use drain::Millis;

/// Minimum interval between two writes.
const PACE: Duration = Duration::from_secs(2);
/// Maximum interval after refusals.
const PATIENCE: Duration = Duration::from_secs(30);

/// Rate limit for one kind of write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OrderedWriter {
    busy: bool,
    next: Millis,
    failures: u32,
    /// True if a write became urgent while another one was in progress.
    urgent: bool,
}

impl OrderedWriter {
    /// Begins a write, if none is in progress and the interval is over. Returns whether it began.
    pub(super) fn take(&mut self, now: Millis) -> bool {
        let free = !self.busy && now >= self.next;
        self.busy |= free;
        free
    }

    /// Records the end of a write.
    pub(super) fn ended(&mut self, done: bool, now: Millis) {
        self.busy = false;
        self.failures = if done { 0 } else { self.failures.saturating_add(1) };
        let factor = 1_u32 << self.failures.saturating_sub(1).min(5);
        let wait = (PACE * factor).min(PATIENCE);
        self.next = if std::mem::take(&mut self.urgent) { now } else { now + wait };
    }

    /// Makes the next write urgent: it does not wait for its interval.
    pub(super) fn hurry(&mut self, now: Millis) {
        self.urgent = self.busy;
        self.next = self.next.min(now);
        self.failures = 0;
    }

    /// Reports whether the last write failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    /// Reports whether no write is in progress.
    pub(super) fn is_free(&self) -> bool {
        !self.busy
    }

    /// Returns the end of the interval, if the writer only waits for it.
    pub(super) fn opens(&self, now: Millis) -> Option<Millis> {
        (!self.busy && self.next > now).then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_increases_interval_until_a_write_succeeds() {
        let mut writer = OrderedWriter::default();
        let mut now = Millis(1_000_000);
        let mut waits = Vec::new();
        for done in [false, false, false, false, false, false, false, true] {
            assert!(writer.take(now) && !writer.take(now));
            writer.ended(done, now);
            assert_eq!(writer.has_failed(), !done);
            let next = writer.opens(now).unwrap_or(now);
            waits.push(next.since(now).as_secs());
            now = next;
        }
        assert!(!writer.has_failed());
        assert_eq!(waits, [2, 4, 8, 16, 30, 30, 30, 2].map(|wait: u64| wait));
    }

    #[test]
    fn hurry_skips_the_interval_but_not_a_write_in_progress() {
        let mut writer = OrderedWriter::default();
        assert!(writer.take(Millis(0)));
        writer.hurry(Millis(0));
        assert!(!writer.take(Millis(0)));
        writer.ended(true, Millis(0));
        assert!(writer.take(Millis(0)), "it came while the other was under way");
        writer.ended(true, Millis(0));
        assert!(!writer.take(Millis(1)));
        writer.hurry(Millis(1));
        assert!(writer.take(Millis(1)));
    }
}
