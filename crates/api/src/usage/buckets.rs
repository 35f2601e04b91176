//! The scale that CPU and memory share: buckets that grow by a twentieth, as those of the vertical pod autoscaler, in units in
//! which both begin alike: 10,000,000 nanocores are a hundredth of a core, 10,000,000 bytes are 10 MB.

/// How many buckets there are.
pub const BUCKETS: u16 = 176;
/// Width of the first bucket, in nanocores or bytes.
pub const FIRST: u64 = 10_000_000;

/// Where each bucket begins: `FIRST * (1.05^n - 1) / 0.05`.
static STARTS: [u64; BUCKETS as usize] = starts();

/// In whole numbers, so that every machine has the same ones: floats differ in their last bits between libraries.
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

/// One bucket of the scale, in the byte that it takes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Level(u8);

impl Level {
    /// The bucket that `value` (nanocores or bytes) falls into; everything beyond the scale falls into the last.
    #[must_use]
    pub fn containing(value: u64) -> Self {
        let after = STARTS.partition_point(|start| *start <= value);
        Self(u8::try_from(after.saturating_sub(1)).unwrap_or(u8::MAX))
    }

    /// The bucket of this number, if there is one.
    #[must_use]
    pub fn at(number: u8) -> Option<Self> {
        (u16::from(number) < BUCKETS).then_some(Self(number))
    }

    /// Its number, from 0.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// Where it begins.
    #[must_use]
    pub fn start(self) -> u64 {
        STARTS[usize::from(self.0)]
    }

    /// Where it ends, which nothing in it exceeds. The last one is open, so it answers where it begins.
    #[must_use]
    pub fn end(self) -> u64 {
        STARTS.get(usize::from(self.0) + 1).copied().unwrap_or(self.start())
    }

    /// [`Self::end`] of a level of CPU, in millicores, rounded up.
    #[must_use]
    pub fn millicores(self) -> u64 {
        self.end().div_ceil(1_000_000)
    }

    /// [`Self::end`] of a level of memory, in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_the_published_one() {
        for n in 0..BUCKETS {
            let wanted = 1e7 * (1.05_f64.powi(i32::from(n)) - 1.0) / 0.05;
            let found = STARTS[usize::from(n)] as f64;
            assert!((found - wanted).abs() <= 1.0 + wanted * 1e-9, "bucket {n}: {found} instead of {wanted}");
        }
        assert!(STARTS[175] > 1_000_000_000_000 && STARTS[174] < 1_000_000_000_000);
    }

    #[test]
    fn every_value_lies_in_its_bucket() {
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
    fn millicores_are_rounded_up() {
        assert_eq!(Level::containing(0).millicores(), 10);
        assert_eq!(Level::containing(10_000_000).millicores(), 21);
        assert_eq!(Level::at(176), None);
    }
}
