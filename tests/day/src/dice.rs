//! Chance by seed, in the words that generators use: the same for the same seed, on every machine.

use rand::distr::uniform::SampleUniform;
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
    pub fn between<T: SampleUniform + PartialOrd>(&mut self, least: T, most: T) -> T {
        self.0.random_range(least..=most)
    }

    /// One of the items; there must be some.
    pub fn one<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.0.random_range(0..items.len())]
    }

    /// One or more of the items, in their order; there must be some.
    pub fn some<T: Clone>(&mut self, items: &[T]) -> Vec<T> {
        let chosen: Vec<T> = items.iter().filter(|_| self.0.random_bool(0.5)).cloned().collect();
        if chosen.is_empty() { vec![self.one(items).clone()] } else { chosen }
    }
}
