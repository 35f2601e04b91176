//! Window of the last minutes, hours or day: a ring of slots, each for a span of wall time, so that its content survives a
//! restart.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Slots of equal width, one more than a window has, so that a window is always complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ring<T> {
    /// Seconds of a slot.
    width: u64,
    /// Number of the newest slot since 1970.
    head: u64,
    slots: Vec<T>,
}

impl<T: Clone + Default> Ring<T> {
    /// Creates `slots` slots of `width` seconds.
    pub(super) fn new(width: u64, slots: usize) -> Self {
        Self { width: width.max(1), head: 0, slots: vec![T::default(); slots.max(1)] }
    }

    /// Reports whether both rings have the same dimensions; a ring that was read from disk may have others.
    pub(super) fn fits(&self, other: &Self) -> bool {
        self.width == other.width && self.slots.len() == other.slots.len()
    }

    /// Returns the slot of `now`. A clock that was set back a little uses the newest slot; one that was set back far clears all
    /// slots.
    pub(super) fn at(&mut self, now: Timestamp) -> &mut T {
        let number = u64::try_from(now.as_second()).unwrap_or(0) / self.width;
        let many = self.slots.len() as u64;
        let (ahead, behind) = (number.saturating_sub(self.head), self.head.saturating_sub(number));
        if ahead >= many || behind >= many {
            self.slots.fill(T::default());
            self.head = number;
        } else {
            for passed in 1..=ahead {
                let index = self.index(self.head + passed);
                self.slots[index] = T::default();
            }
            self.head += ahead;
        }
        let index = self.index(self.head);
        &mut self.slots[index]
    }

    fn index(&self, number: u64) -> usize {
        usize::try_from(number % self.slots.len() as u64).unwrap_or(0)
    }

    /// Returns all slots that are recent at `now`.
    pub(super) fn recent(&mut self, now: Timestamp) -> &[T] {
        self.at(now);
        &self.slots
    }
}

impl<T: Clone + Default + Ord> Ring<T> {
    /// Keeps `value` if it is greater than the slot's value.
    pub(super) fn raise(&mut self, value: T, now: Timestamp) {
        let slot = self.at(now);
        if *slot < value {
            *slot = value;
        }
    }

    /// Returns the greatest value.
    pub(super) fn highest(&mut self, now: Timestamp) -> T {
        self.recent(now).iter().max().cloned().unwrap_or_default()
    }
}

/// Part of a whole: time stalled, periods throttled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Counted amount.
    pub part: u64,
    /// Total amount.
    pub whole: u64,
}

impl Ring<Part> {
    /// Adds to both.
    pub(super) fn add(&mut self, more: Part, now: Timestamp) {
        let slot = self.at(now);
        slot.part = slot.part.saturating_add(more.part);
        slot.whole = slot.whole.saturating_add(more.whole);
    }

    /// Returns the greatest share in thousandths, of the slots with a whole of at least `least`; `None` where there is no such
    /// slot.
    pub(super) fn worst(&mut self, least: u64, now: Timestamp) -> Option<u16> {
        let filled = self.recent(now).iter().filter(|slot| slot.whole >= least.max(1));
        let shares = filled.map(|slot| u128::from(slot.part) * 1000 / u128::from(slot.whole));
        shares.max().map(|share| u16::try_from(share.min(1000)).unwrap_or(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn highest_drops_a_peak_after_its_window() {
        let mut ring = Ring::new(60, 6);
        ring.raise(7, at(1000));
        ring.raise(3, at(1010));
        assert_eq!(ring.highest(at(1000 + 300)), 7);
        ring.raise(5, at(1200));
        assert_eq!(ring.highest(at(1000 + 360)), 5);
        assert_eq!(ring.highest(at(1000 + 720)), 0);
    }

    #[test]
    fn ring_keeps_recent_slots_when_the_clock_jumps() {
        let mut ring = Ring::new(60, 6);
        ring.raise(7, at(100_000));
        ring.raise(9, at(99_900));
        assert_eq!(ring.highest(at(100_000)), 9, "a little back is now");
        ring.raise(2, at(10));
        assert_eq!(ring.highest(at(20)), 2, "far back begins anew");
        ring.raise(1, Timestamp::MAX);
        ring.raise(1, Timestamp::MIN);
        assert_eq!(ring.highest(at(0)), 1);
    }

    #[test]
    fn worst_ignores_slots_with_too_small_a_whole() {
        let mut ring = Ring::new(300, 13);
        assert_eq!(ring.worst(10, at(0)), None);
        ring.add(Part { part: 5, whole: 5 }, at(300));
        ring.add(Part { part: 10, whole: 100 }, at(600));
        ring.add(Part { part: 10, whole: 100 }, at(899));
        assert_eq!(ring.worst(10, at(900)), Some(100));
        assert_eq!(ring.worst(1, at(900)), Some(1000));
        ring.add(Part { part: u64::MAX, whole: 3 }, at(900));
        assert_eq!(ring.worst(1, at(900)), Some(1000));
    }
}
