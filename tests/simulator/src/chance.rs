//! Seeded random faults, deterministic as far as threads allow, which can be disabled.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Source of random numbers and faults.
#[derive(Debug)]
pub struct Chance {
    state: AtomicU64,
    calm: AtomicBool,
    faults: AtomicU64,
}

impl Chance {
    /// Creates a source with a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed), calm: AtomicBool::new(false), faults: AtomicU64::new(0) }
    }

    /// Returns a number below `bound`.
    pub fn below(&self, bound: usize) -> usize {
        let mut mixed = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % (bound as u64)).unwrap()
    }

    /// Returns true in one of `count` cases on average.
    pub fn one_in(&self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Reports whether a fault of this rarity happens now.
    pub fn strikes(&self, one_in: usize) -> bool {
        let strikes = !self.calm.load(Ordering::Relaxed) && self.one_in(one_in);
        self.faults.fetch_add(u64::from(strikes), Ordering::Relaxed);
        strikes
    }

    /// Disables all later faults.
    pub fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    /// Returns the number of faults so far.
    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }
}
