//! Weighted counts of hits per cell, where the weight of a hit halves every day. All weights are integers: a later hit has a
//! greater weight, so weights need no scaling as time passes. A merge adds numbers, in any order.

use jiff::Timestamp;

use super::wire::{InvalidText, Reader, put};

const HOURS_A_DAY: u32 = 24;
/// Weight of a hit by hour of the day: `1024 * 2^(hour / 24)`.
const WORTH: [u64; HOURS_A_DAY as usize] = [
    1024, 1054, 1085, 1117, 1149, 1183, 1218, 1253, 1290, 1328, 1367, 1407, 1448, 1491, 1534, 1579, 1625, 1673, 1722,
    1773, 1825, 1878, 1933, 1990,
];
/// Days after which weights are rescaled to their initial epoch. A hit then has 1/256 of its weight.
const CARRIED: u32 = 8;
/// Maximum distance in days of two merged sets. Beyond it, the older one has no weight beside the newer one.
const APART: u32 = 24;
/// Maximum sum of transferred weights. A figure is exact to 0.05 % of the time.
const TRAVELS: u64 = 4095;

/// Weights of cells. The weights are exact while sums stay below 2^40, which takes an agent ten thousand days, or a controller
/// as many nodes. Greater sums saturate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Weights {
    /// Day since 1970 at whose start a hit had weight [`WORTH`]`[0]`.
    epoch: u32,
    /// First cell of the stored window.
    first: u16,
    cells: Vec<u64>,
}

impl Weights {
    /// Counts a hit.
    pub(super) fn add(&mut self, cell: u16, at: Timestamp) {
        let hour = u32::try_from(at.as_second().max(0) / 3600).unwrap_or(u32::MAX);
        let (day, hour) = (hour / HOURS_A_DAY, hour % HOURS_A_DAY);
        // The clock went back: existing weights count as if they were from now.
        if self.cells.is_empty() || day < self.epoch {
            self.epoch = day;
        }
        if day - self.epoch > CARRIED {
            self.carry(day);
        }
        let worth = WORTH[hour as usize] << (day - self.epoch);
        let weight = self.cell(cell);
        *weight = weight.saturating_add(worth);
    }

    /// Returns the weight of a cell, and extends the window to that cell.
    fn cell(&mut self, cell: u16) -> &mut u64 {
        if self.cells.is_empty() {
            self.first = cell;
        }
        if cell < self.first {
            let missing = usize::from(self.first - cell);
            self.cells.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = cell;
        }
        let index = usize::from(cell - self.first);
        if index >= self.cells.len() {
            self.cells.resize(index + 1, 0);
        }
        &mut self.cells[index]
    }

    /// Rescales the weights to `day`.
    fn carry(&mut self, day: u32) {
        match day - self.epoch {
            days if days < u64::BITS => self.shrink(days),
            _ => self.cells.clear(),
        }
        self.epoch = day;
    }

    /// Divides the weights by `2^shift`. Rounding keeps the sums from the first cell on correct, not the single cells.
    fn shrink(&mut self, shift: u32) {
        let (mut before, mut sum) = (0, 0_u128);
        for weight in &mut self.cells {
            sum += u128::from(*weight);
            let rounded = rounded(sum, shift);
            *weight = u64::try_from(rounded - before).unwrap_or(u64::MAX);
            before = rounded;
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.cells.last() == Some(&0) {
            self.cells.pop();
        }
        let empty = self.cells.iter().take_while(|weight| **weight == 0).count();
        self.cells.drain(..empty);
        self.first += u16::try_from(empty).unwrap_or_default();
        if self.cells.is_empty() {
            *self = Self::default();
        }
    }

    /// Adds the hits of another set.
    pub(super) fn merge(&mut self, other: &Self) {
        if other.cells.is_empty() {
            return;
        }
        if self.cells.is_empty() {
            self.clone_from(other);
            return;
        }
        match self.epoch.abs_diff(other.epoch) {
            apart if apart > APART => {
                if other.epoch > self.epoch {
                    self.clone_from(other);
                }
            }
            apart if other.epoch >= self.epoch => self.take_in(other, apart),
            apart => {
                let newer = std::mem::replace(self, other.clone());
                self.take_in(&newer, apart);
            }
        }
    }

    /// Adds a set whose epoch is `days` later, so that its hits have a greater weight.
    fn take_in(&mut self, newer: &Self, days: u32) {
        for (cell, weight) in newer.hits() {
            let worth = weight.saturating_mul(1 << days);
            let mine = self.cell(cell);
            *mine = mine.saturating_add(worth);
        }
    }

    /// Returns the cells and their weights, in the order of cells.
    pub(super) fn hits(&self) -> impl Iterator<Item = (u16, u64)> {
        (self.first..).zip(self.cells.iter().copied())
    }

    /// Returns the sum of all weights.
    pub(super) fn total(&self) -> u128 {
        self.cells.iter().copied().map(u128::from).sum()
    }

    /// Returns the bytes for transfer: small, and always the same for the same weights.
    pub(super) fn abridged(&self) -> Vec<u8> {
        let total = self.total();
        let shift = (0..u64::BITS).find(|shift| rounded(total, *shift) <= u128::from(TRAVELS)).unwrap_or(0);
        let mut small = self.clone();
        small.shrink(shift);
        small.written(shift)
    }

    /// Returns the bytes for storage, without loss.
    pub(super) fn whole(&self) -> Vec<u8> {
        self.written(0)
    }

    fn written(&self, shift: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(16 + 2 * self.cells.len());
        if self.cells.is_empty() {
            return bytes;
        }
        for head in [self.epoch.into(), shift.into(), u64::from(self.first)] {
            put(&mut bytes, head);
        }
        let mut empty = 0;
        for weight in &self.cells {
            if *weight == 0 {
                empty += 1;
                continue;
            }
            // A zero is followed by the number of zeros.
            if empty > 0 {
                put(&mut bytes, 0);
                put(&mut bytes, std::mem::take(&mut empty));
            }
            put(&mut bytes, *weight);
        }
        bytes
    }

    /// Parses either form. `cells` is the maximum number of cells.
    pub(super) fn read(bytes: &[u8], cells: u16) -> Result<Self, InvalidText> {
        let mut reader = Reader::new(bytes);
        let mut read = Self::default();
        if reader.is_done() {
            return Ok(read);
        }
        read.epoch = u32::try_from(reader.number()?).map_err(|_| InvalidText("its day lies too far ahead"))?;
        let shift = u32::try_from(reader.number()?).unwrap_or(u64::BITS);
        let mut cell = reader.number()?;
        while !reader.is_done() {
            let weight = reader.number()?;
            if weight == 0 {
                cell = cell.saturating_add(reader.number()?);
                continue;
            }
            let known = u16::try_from(cell).ok().filter(|cell| *cell < cells);
            let known = known.ok_or(InvalidText("it has more cells than there are"))?;
            if shift >= weight.leading_zeros() {
                return Err(InvalidText("a weight is too large"));
            }
            *read.cell(known) = weight << shift;
            cell += 1;
        }
        Ok(read)
    }
}

/// Returns `sum / 2^shift`, rounded to the nearest.
fn rounded(sum: u128, shift: u32) -> u128 {
    (sum + ((1 << shift) >> 1)) >> shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worth_doubles_in_a_day() {
        for (hour, worth) in WORTH.iter().enumerate() {
            let expected = 1024.0 * 2_f64.powf(hour as f64 / 24.0);
            assert!((*worth as f64 - expected).abs() <= 0.5, "hour {hour}");
        }
    }
}
