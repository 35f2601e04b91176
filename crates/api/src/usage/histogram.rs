//! Histogram of CPU or memory utilization over time.

use jiff::Timestamp;

use super::buckets::{BUCKETS, Level};
use super::weights::Weights;
use super::wire::{self, InvalidText};

/// Histogram over the scale of [`Level`]s. The weight of a sample halves every 24 hours.
///
/// Histograms merge exactly: the result is the same in any order and any grouping, to the byte of [`Self::abridged`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram(Weights);

impl Histogram {
    /// Adds a sample, in nanocores or bytes.
    pub fn add(&mut self, value: u64, at: Timestamp) {
        self.0.add(Level::containing(value).number().into(), at);
    }

    /// Adds the samples of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    /// Reports whether there are no samples, or only samples so old that their weight is zero.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.total() == 0
    }

    /// Returns the level that was not exceeded for `per_mille` of the time; `None` if there are no samples.
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

    /// Returns the text for transfer, about 60 characters and never more than 300. Percentiles of the parsed text are exact to
    /// 0.05 % of the time.
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
        Weights::read(&wire::bytes(text)?, BUCKETS).map(Self)
    }
}
