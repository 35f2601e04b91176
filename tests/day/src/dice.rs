//! Chance by seed: the same day for the same seed, on every machine.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// A source of choices that depend on nothing but the seed.
#[derive(Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// The dice of one seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Whether an event of so many percent happens.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    /// A number of the range, both ends included.
    pub fn between(&mut self, least: i64, most: i64) -> i64 {
        self.0.random_range(least..=most)
    }

    /// One of the items, if there is any.
    pub fn one<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        (!items.is_empty()).then(|| &items[self.0.random_range(0..items.len())])
    }
}
