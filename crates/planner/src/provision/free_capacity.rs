//! What is left in each room: row beside row, so that a search which mostly meets full rooms reads nothing else, and with the
//! most that any room of a stretch has, so that it passes a stretch at once in which nobody has enough.

use super::dimensions::{Amounts, fits};

/// What a closed room has left of anything: less than any room that pods filled.
const CLOSED: i64 = i64::MIN / 4;
/// How many rooms a stretch has.
const STRETCH: usize = 32;

/// One row a room, in the order in which they are tried.
#[derive(Clone)]
pub(super) struct FreeCapacity {
    width: usize,
    rows: Vec<i64>,
    /// By stretch, the most of each dimension that one of its rooms has.
    most: Vec<i64>,
}

impl FreeCapacity {
    pub(super) fn new(rooms: &[Amounts]) -> Self {
        let width = rooms.first().map_or(0, |row| row.len());
        let stretches = rooms.len().div_ceil(STRETCH);
        let mut ledger = Self { width, rows: rooms.concat(), most: vec![0; stretches * width] };
        (0..stretches).for_each(|stretch| ledger.sum_up(stretch));
        ledger
    }

    /// What is left in a room.
    pub(super) fn row(&self, room: usize) -> &[i64] {
        &self.rows[room * self.width..][..self.width]
    }

    /// How many rooms from this one on surely have too little: all that are left of its stretch, or none that is known of.
    pub(super) fn full_from(&self, room: usize, asked: &[i64]) -> usize {
        let most = &self.most[room / STRETCH * self.width..][..self.width];
        if fits(asked, most) { 0 } else { STRETCH - room % STRETCH }
    }

    /// Takes so much from a room.
    pub(super) fn take(&mut self, room: usize, asked: &[i64]) {
        let left = &mut self.rows[room * self.width..][..self.width];
        left.iter_mut().zip(asked).for_each(|(left, asked)| *left -= asked);
    }

    /// Puts a row back as it was.
    pub(super) fn put_back(&mut self, room: usize, row: &[i64]) {
        self.rows[room * self.width..][..self.width].copy_from_slice(row);
        self.settle(room);
    }

    /// Leaves nothing in a room.
    pub(super) fn close(&mut self, room: usize) {
        self.rows[room * self.width..][..self.width].fill(CLOSED);
        self.settle(room);
    }

    /// Whether a room was closed.
    pub(super) fn is_closed(&self, room: usize) -> bool {
        self.row(room).first().is_some_and(|left| *left <= CLOSED)
    }

    /// Notes the most that rooms have in the stretch of one from which something was taken.
    pub(super) fn settle(&mut self, room: usize) {
        self.sum_up(room / STRETCH);
    }

    fn sum_up(&mut self, stretch: usize) {
        let (begin, end) = (stretch * STRETCH * self.width, (stretch + 1) * STRETCH * self.width);
        let rows = &self.rows[begin..end.min(self.rows.len())];
        let most = &mut self.most[stretch * self.width..][..self.width];
        most.fill(i64::MIN);
        for row in rows.chunks_exact(self.width.max(1)) {
            most.iter_mut().zip(row).for_each(|(most, left)| *most = (*left).max(*most));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_stretch_is_passed_exactly_when_nobody_in_it_has_enough(
            mut amounts in vec(0..9i64, 1..80),
            taken in vec((0..80usize, 0..4i64), 0..40),
            asked in 1..9i64,
        ) {
            let mut ledger = FreeCapacity::new(&amounts.iter().map(|amount| [*amount].into()).collect::<Vec<Amounts>>());
            let rooms = amounts.len();
            for (room, amount) in taken.into_iter().filter(|(room, _)| *room < rooms) {
                ledger.take(room, &[amount]);
                ledger.settle(room);
                amounts[room] -= amount;
            }
            for room in 0..rooms {
                let begin = room / STRETCH * STRETCH;
                let end = begin + STRETCH;
                let enough = amounts[begin..end.min(rooms)].iter().any(|amount| *amount >= asked);
                prop_assert_eq!(ledger.row(room), &[amounts[room]]);
                prop_assert_eq!(ledger.full_from(room, &[asked]), if enough { 0 } else { end - room });
            }
        }
    }
}
