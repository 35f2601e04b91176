//! Pace of one kind of write: one at a time, never closer than a few seconds, and further apart the longer the server refuses.

use std::time::Duration;

use drain::Millis;

/// The least time between two writes.
const PACE: Duration = Duration::from_secs(2);
/// The longest wait after refusals.
const PATIENCE: Duration = Duration::from_secs(30);

/// One kind of write.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OrderedWriter {
    busy: bool,
    next: Millis,
    failures: u32,
    /// Something urgent came while a write was under way.
    urgent: bool,
}

impl OrderedWriter {
    /// Takes the lane for a write, if it is free.
    pub(super) fn take(&mut self, now: Millis) -> bool {
        let free = !self.busy && now >= self.next;
        self.busy |= free;
        free
    }

    /// The write has ended.
    pub(super) fn ended(&mut self, done: bool, now: Millis) {
        self.busy = false;
        self.failures = if done { 0 } else { self.failures.saturating_add(1) };
        let factor = 1_u32 << self.failures.saturating_sub(1).min(5);
        let wait = (PACE * factor).min(PATIENCE);
        self.next = if std::mem::take(&mut self.urgent) { now } else { now + wait };
    }

    /// Something urgent: the next write need not wait for its turn.
    pub(super) fn hurry(&mut self, now: Millis) {
        self.urgent = self.busy;
        self.next = self.next.min(now);
        self.failures = 0;
    }

    /// Whether no write is under way.
    pub(super) fn is_free(&self) -> bool {
        !self.busy
    }

    /// When it opens, if it is merely waiting.
    pub(super) fn opens(&self, now: Millis) -> Option<Millis> {
        (!self.busy && self.next > now).then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_space_writes_out_and_success_brings_them_back() {
        let mut lane = OrderedWriter::default();
        let mut now = Millis(1_000_000);
        let mut waits = Vec::new();
        for done in [false, false, false, false, false, false, false, true] {
            assert!(lane.take(now) && !lane.take(now));
            lane.ended(done, now);
            let next = lane.opens(now).unwrap_or(now);
            waits.push(next.since(now).as_secs());
            now = next;
        }
        assert_eq!(waits, [2, 4, 8, 16, 30, 30, 30, 2].map(|wait: u64| wait));
    }

    #[test]
    fn urgency_skips_the_wait_but_not_a_write_under_way() {
        let mut lane = OrderedWriter::default();
        assert!(lane.take(Millis(0)));
        lane.hurry(Millis(0));
        assert!(!lane.take(Millis(0)));
        lane.ended(true, Millis(0));
        assert!(lane.take(Millis(0)), "it came while the other was under way");
        lane.ended(true, Millis(0));
        assert!(!lane.take(Millis(1)));
        lane.hurry(Millis(1));
        assert!(lane.take(Millis(1)));
    }
}
