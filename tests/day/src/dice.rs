//! Seeded random numbers, with the vocabulary of generators: the same seed gives the same numbers on every machine.

use rand::distr::uniform::SampleUniform;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

/// Source of random choices that depend only on the seed.
#[derive(Debug)]
pub struct Dice(ChaCha8Rng);

impl Dice {
    /// Creates the source for a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Returns true with a probability of `percent`.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    /// Returns a number of the range, both ends included.
    pub fn between<T: SampleUniform + PartialOrd>(&mut self, least: T, most: T) -> T {
        self.0.random_range(least..=most)
    }

    /// Returns one of the items; the list must not be empty.
    pub fn one<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.0.random_range(0..items.len())]
    }

    /// Returns one or more of the items, in their order; the list must not be empty.
    pub fn some<T: Clone>(&mut self, items: &[T]) -> Vec<T> {
        let chosen: Vec<T> = items.iter().filter(|_| self.0.random_bool(0.5)).cloned().collect();
        if chosen.is_empty() { vec![self.one(items).clone()] } else { chosen }
    }
}
