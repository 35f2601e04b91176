//! How CPU or memory in use was spread over time.

use jiff::Timestamp;

use super::buckets::{BUCKETS, Level};
use super::weights::Weights;
use super::wire::{self, InvalidText};

/// A histogram over the scale of [`Level`]s, in which what was seen counts half as much after 24 hours.
///
/// Histograms add up exactly: merged in any order and any grouping they are the same, to the byte of [`Self::abridged`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(Weights);

impl Histogram {
    /// Counts a sample, in nanocores or bytes.
    pub fn add(&mut self, value: u64, at: Timestamp) {
        self.0.add(Level::containing(value).number().into(), at);
    }

    /// Adds what another has counted.
    pub fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    /// Whether nothing was counted, or so long ago that nothing is left of it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.total() == 0
    }

    /// The level that was not exceeded for `per_mille` of the time; `None` when nothing was counted.
    #[must_use]
    pub fn percentile(&self, per_mille: u16) -> Option<Level> {
        let total = self.0.total();
        let mut sum = 0;
        let mut hits = self.0.hits();
        let (bucket, _) = hits.find(|(_, weight)| {
            sum += u128::from(*weight);
            *weight > 0 && sum * 1000 >= total * u128::from(per_mille.min(1000))
        })?;
        u8::try_from(bucket).ok().and_then(Level::at)
    }

    /// The text that travels, about 60 characters long and never above 300. Percentiles of what is read back from it differ by
    /// the time that half a tenth of a percent is.
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
        Weights::read(&wire::bytes(text)?, BUCKETS).map(Self)
    }
}
