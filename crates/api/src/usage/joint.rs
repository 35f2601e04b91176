//! Joint histogram of CPU and memory utilization. Two separate histograms do not show whether peaks coincide. A node whose CPU
//! and memory peak at different times can take more pods.

use jiff::Timestamp;

use super::weights::Weights;
use super::wire::{self, InvalidText};

/// Number of steps per resource, each a sixteenth of the node: finer than the margins of the planner, and small enough to
/// transfer without loss.
const SIDE: u16 = 16;

/// Histogram over shares of the node's CPU and memory. Decay and merge are those of [`super::Histogram`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joint(Weights);

/// Used part of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Used amount.
    pub used: u64,
    /// Total amount, in the same unit.
    pub of: u64,
}

impl Share {
    /// Returns the sixteenth of the share, from 0. A full or overcommitted node is in the last one.
    fn step(self) -> u16 {
        let step = u128::from(self.used) * u128::from(SIDE) / u128::from(self.of.max(1));
        u16::try_from(step).unwrap_or(SIDE).min(SIDE - 1)
    }
}

impl Joint {
    /// Adds a sample.
    pub fn add(&mut self, cpu: Share, memory: Share, at: Timestamp) {
        self.0.add(cpu.step() * SIDE + memory.step(), at);
    }

    /// Adds the samples of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    /// Returns the thousandths of the time in which CPU was below `cpu` and memory below `memory` thousandths of the node. The
    /// result is rounded down, and the limits are rounded down to sixteenths. Returns `None` if there are no samples.
    #[must_use]
    pub fn time_within(&self, cpu: u16, memory: u16) -> Option<u16> {
        let steps = |limit: u16| limit.min(1000) * SIDE / 1000;
        self.time_below(steps(cpu), steps(memory))
    }

    fn time_below(&self, cpu: u16, memory: u16) -> Option<u16> {
        let within = |cell: u16| cell / SIDE < cpu && cell % SIDE < memory;
        let within: u128 = self.0.hits().filter(|(cell, _)| within(*cell)).map(|(_, weight)| u128::from(weight)).sum();
        let time = (within * 1000).checked_div(self.0.total())?;
        u16::try_from(time).ok()
    }

    /// Returns the joint percentile: the share of the node, in thousandths, below which both CPU and memory were for
    /// `per_mille` of the time. Returns `None` if there are no samples.
    #[must_use]
    pub fn percentile(&self, per_mille: u16) -> Option<u16> {
        let target = per_mille.min(1000);
        let step = (1..=SIDE).find(|step| self.time_below(*step, *step).is_some_and(|time| time >= target))?;
        Some((step * 1000).div_ceil(SIDE))
    }

    /// Returns the text for transfer, never more than 400 characters.
    #[must_use]
    pub fn abridged(&self) -> String {
        wire::text(&self.0.abridged())
    }

    /// Returns the text without loss.
    #[must_use]
    pub fn whole(&self) -> String {
        wire::text(&self.0.whole())
    }

    /// Parses either text.
    ///
    /// # Errors
    /// Returns [`InvalidText`] for any other text.
    pub fn read(text: &str) -> Result<Self, InvalidText> {
        Weights::read(&wire::bytes(text)?, SIDE * SIDE).map(Self)
    }
}
