//! How often each cell was hit, where a hit counts half as much after a day. Whole numbers only: a hit is worth more the later
//! it comes, so nothing has to be scaled down as time passes, and adding two of these is adding numbers, in any order.

use jiff::Timestamp;

use super::wire::{InvalidText, Reader, put};

const HOURS_A_DAY: u32 = 24;
/// `1024 * 2^(hour / 24)`: what a hit in that hour of the day is worth.
const WORTH: [u64; HOURS_A_DAY as usize] = [
    1024, 1054, 1085, 1117, 1149, 1183, 1218, 1253, 1290, 1328, 1367, 1407, 1448, 1491, 1534, 1579, 1625, 1673, 1722,
    1773, 1825, 1878, 1933, 1990,
];
/// Days after which the weights are brought back to where they began; a hit is worth 1/256 by then.
const CARRIED: u32 = 8;
/// Of two that are further apart than this many days, the older counts nothing beside the newer.
const APART: u32 = 24;
/// Weights that travel add up to no more than this: a figure is right to half a tenth of a percent of the time.
const TRAVELS: u64 = 4095;

/// Weights of cells. Exact while the sums stay below 2^40, which takes an agent ten thousand days and a controller as many
/// nodes; beyond that they saturate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Weights {
    /// The day, counted from 1970, at whose beginning a hit was worth [`WORTH`]`[0]`.
    epoch: u32,
    /// The first cell of the window that was ever hit.
    first: u16,
    cells: Vec<u64>,
}

impl Weights {
    /// Counts a hit.
    pub(super) fn add(&mut self, cell: u16, at: Timestamp) {
        let hour = u32::try_from(at.as_second().max(0) / 3600).unwrap_or(u32::MAX);
        let (day, hour) = (hour / HOURS_A_DAY, hour % HOURS_A_DAY);
        // A clock that goes back: what is known counts as if it were from now.
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

    /// The weight of a cell, in a window that reaches as far as it.
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

    /// Begins to count from `day`.
    fn carry(&mut self, day: u32) {
        match day - self.epoch {
            days if days < u64::BITS => self.shrink(days),
            _ => self.cells.clear(),
        }
        self.epoch = day;
    }

    /// Divides by `2^shift` so that what is left of each sum from the first cell on is right, not each cell.
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

    /// Adds what another has counted.
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

    /// Adds one that begins `days` later, so that its hits are worth more.
    fn take_in(&mut self, newer: &Self, days: u32) {
        for (cell, weight) in newer.hits() {
            let worth = weight.saturating_mul(1 << days);
            let mine = self.cell(cell);
            *mine = mine.saturating_add(worth);
        }
    }

    /// Cells and their weights, in the order of cells.
    pub(super) fn hits(&self) -> impl Iterator<Item = (u16, u64)> {
        (self.first..).zip(self.cells.iter().copied())
    }

    /// All weights together.
    pub(super) fn total(&self) -> u128 {
        self.cells.iter().copied().map(u128::from).sum()
    }

    /// As it travels: small, and always the same text for the same weights.
    pub(super) fn abridged(&self) -> Vec<u8> {
        let total = self.total();
        let shift = (0..u64::BITS).find(|shift| rounded(total, *shift) <= u128::from(TRAVELS)).unwrap_or(0);
        let mut small = self.clone();
        small.shrink(shift);
        small.written(shift)
    }

    /// As it is kept: to the last bit.
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
            // A zero is followed by how many there are.
            if empty > 0 {
                put(&mut bytes, 0);
                put(&mut bytes, std::mem::take(&mut empty));
            }
            put(&mut bytes, *weight);
        }
        bytes
    }

    /// Reads either form; `cells` is how many there may be.
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

/// `sum / 2^shift`, rounded to the nearest.
fn rounded(sum: u128, shift: u32) -> u128 {
    (sum + ((1 << shift) >> 1)) >> shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_worth_twice_as_much_a_day_later() {
        for (hour, worth) in WORTH.iter().enumerate() {
            let wanted = 1024.0 * 2_f64.powf(hour as f64 / 24.0);
            assert!((*worth as f64 - wanted).abs() <= 0.5, "hour {hour}");
        }
    }
}
