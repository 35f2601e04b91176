//! Histogram scale for CPU and memory. Each bucket is 5 % wider than the one before, as in the Vertical Pod Autoscaler. The
//! units are chosen so that both scales begin alike: 10,000,000 nanocores are 0.01 cores, 10,000,000 bytes are 10 MB.

/// Number of buckets.
pub const BUCKETS: u16 = 176;
/// Width of the first bucket, in nanocores or bytes.
pub const FIRST: u64 = 10_000_000;

/// Start of each bucket: `FIRST * (1.05^n - 1) / 0.05`.
static STARTS: [u64; BUCKETS as usize] = starts();

/// Computes the starts with integers, so that they are the same on every machine. Floats differ in their last bits between
/// libraries.
const fn starts() -> [u64; BUCKETS as usize] {
    const FRACTION: u32 = 40;
    let mut table = [0; BUCKETS as usize];
    let (mut start, mut width): (u128, u128) = (0, (FIRST as u128) << FRACTION);
    let mut n = 0;
    while n < BUCKETS as usize {
        table[n] = (start >> FRACTION) as u64;
        start += width;
        width = width * 21 / 20;
        n += 1;
    }
    table
}

/// Bucket of the scale, encoded in one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// Returns the bucket of `value` (nanocores or bytes). Values beyond the scale belong to the last bucket.
    #[must_use]
    pub fn containing(value: u64) -> Self {
        let after = STARTS.partition_point(|start| *start <= value);
        Self(u8::try_from(after.saturating_sub(1)).unwrap_or(u8::MAX))
    }

    /// Returns the bucket with this number, if there is one.
    #[must_use]
    pub fn at(number: u8) -> Option<Self> {
        (u16::from(number) < BUCKETS).then_some(Self(number))
    }

    /// Returns the number of the bucket, from 0.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// Returns the start of the bucket.
    #[must_use]
    pub fn start(self) -> u64 {
        STARTS[usize::from(self.0)]
    }

    /// Returns the end of the bucket, an upper bound of its values. The last bucket has no end, so its start is returned.
    #[must_use]
    pub fn end(self) -> u64 {
        STARTS.get(usize::from(self.0) + 1).copied().unwrap_or(self.start())
    }

    /// Returns [`Self::end`] of a CPU level, in millicores, rounded up.
    #[must_use]
    pub fn millicores(self) -> u64 {
        self.end().div_ceil(1_000_000)
    }

    /// Returns [`Self::end`] of a memory level, in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_follow_the_published_formula() {
        for n in 0..BUCKETS {
            let expected = 1e7 * (1.05_f64.powi(i32::from(n)) - 1.0) / 0.05;
            let found = STARTS[usize::from(n)] as f64;
            assert!((found - expected).abs() <= 1.0 + expected * 1e-9, "bucket {n}: {found} instead of {expected}");
        }
        assert!(STARTS[175] > 1_000_000_000_000 && STARTS[174] < 1_000_000_000_000);
    }

    #[test]
    fn level_containing_includes_the_value() {
        let mut value: u64 = 0;
        while value < 3_000_000_000_000 {
            let level = Level::containing(value);
            assert!(level.start() <= value, "{value}");
            assert!(value < level.end() || level.number() == 175, "{value}");
            value = value * 103 / 100 + 999_983;
        }
        assert_eq!(Level::containing(u64::MAX).number(), 175);
        assert_eq!(Level::containing(u64::MAX).end(), Level::containing(u64::MAX).start());
    }

    #[test]
    fn millicores_rounds_up() {
        assert_eq!(Level::containing(0).millicores(), 10);
        assert_eq!(Level::containing(10_000_000).millicores(), 21);
        assert_eq!(Level::at(176), None);
    }
}
