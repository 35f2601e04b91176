//! How CPU and memory of a machine were in use at the same time. Two histograms do not tell that: a machine whose CPU and
//! memory peak in turns can take more than one whose peaks coincide.

use jiff::Timestamp;

use super::weights::Weights;
use super::wire::{self, InvalidText};

/// A sixteenth of the machine on each side: finer than the margins that a placement keeps, and small enough to travel whole.
const SIDE: u16 = 16;

/// A histogram over shares of the machine's CPU and memory, which decays and adds up as a [`super::Histogram`] does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joint(Weights);

/// How much of something is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// In use.
    pub used: u64,
    /// There is, in the same unit.
    pub of: u64,
}

impl Share {
    /// Its sixteenth, counted from 0; a full or overcommitted machine is in the last.
    fn step(self) -> u16 {
        let step = u128::from(self.used) * u128::from(SIDE) / u128::from(self.of.max(1));
        u16::try_from(step).unwrap_or(SIDE).min(SIDE - 1)
    }
}

impl Joint {
    /// Counts a sample.
    pub fn add(&mut self, cpu: Share, memory: Share, at: Timestamp) {
        self.0.add(cpu.step() * SIDE + memory.step(), at);
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    /// Thousandths of the time in which CPU was below `cpu` and memory below `memory` thousandths of the machine, rounded down,
    /// the limits to sixteenths; `None` when nothing was counted.
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

    /// The joint percentile: the share of the machine, in thousandths, below which CPU and memory both stayed for `per_mille` of
    /// the time; `None` when nothing was counted.
    #[must_use]
    pub fn percentile(&self, per_mille: u16) -> Option<u16> {
        let wanted = per_mille.min(1000);
        let step = (1..=SIDE).find(|step| self.time_below(*step, *step).is_some_and(|time| time >= wanted))?;
        Some((step * 1000).div_ceil(SIDE))
    }

    /// The text that travels, never above 400 characters.
    #[must_use]
    pub fn abridged(&self) -> String {
        wire::text(&self.0.abridged())
    }

    /// The text that loses nothing.
    #[must_use]
    pub fn whole(&self) -> String {
        wire::text(&self.0.whole())
    }

    /// Reads either text.
    ///
    /// # Errors
    /// [`InvalidText`] for anything else.
    pub fn read(text: &str) -> Result<Self, InvalidText> {
        Weights::read(&wire::bytes(text)?, SIDE * SIDE).map(Self)
    }
}
