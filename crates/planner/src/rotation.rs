//! What is too much for one plan is looked at by turns.
//!
//! A move that saves money begins when every plan for a while has contained it, so plans that follow each other must look at the same; a
//! turn lasts for two such whiles, by the clock. So nothing has to be remembered, and after as many turns as there are parts everything
//! has been looked at.

use std::ops::Range;

use crate::Millis;
use crate::validation::VALIDATION;

/// For how many milliseconds plans look at the same.
const LENGTH: i64 = 2 * VALIDATION;

/// Which of so many parts has its turn.
pub(crate) fn current_part(now: Millis, parts: usize) -> usize {
    let parts = i64::try_from(parts.max(1)).unwrap_or(i64::MAX);
    usize::try_from(now.0.div_euclid(LENGTH).rem_euclid(parts)).unwrap_or(0)
}

/// When the next turn begins.
pub(crate) fn end(now: Millis) -> Millis {
    Millis((now.0.div_euclid(LENGTH) + 1).saturating_mul(LENGTH))
}

/// Of a list whose elements take so much effort each, the parts that take no more than `most` together; one that takes more by itself is
/// a part.
pub(crate) fn parts(efforts: &[usize], most: usize) -> Vec<Range<usize>> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    let mut sum = 0;
    for (position, effort) in efforts.iter().enumerate() {
        match parts.last_mut().filter(|_| sum + effort <= most) {
            Some(part) => part.end = position + 1,
            None => {
                parts.push(position..position + 1);
                sum = 0;
            }
        }
        sum += effort;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{LENGTH, Millis, current_part, end, parts};

    /// Efforts, and where each part of them begins and ends.
    type Row = (&'static [usize], &'static [(usize, usize)]);

    #[test]
    fn parts_are_in_order_whole_and_bearable() {
        let rows: [Row; 5] = [
            (&[], &[]),
            (&[4, 3, 3], &[(0, 3)]),
            (&[4, 3, 4], &[(0, 2), (2, 3)]),
            (&[11, 1, 11], &[(0, 1), (1, 2), (2, 3)]),
            (&[5, 5, 5, 5, 5], &[(0, 2), (2, 4), (4, 5)]),
        ];
        for (efforts, expected) in rows {
            let found: Vec<(usize, usize)> =
                parts(efforts, 10).into_iter().map(|part| (part.start, part.end)).collect();
            assert_eq!(found, expected, "{efforts:?}");
        }
    }

    #[test]
    fn each_part_has_its_turn_and_keeps_it_until_the_next() {
        let turns: Vec<usize> = (-3..5).map(|turn| current_part(Millis(turn * LENGTH), 3)).collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0, 1]);
        assert_eq!(current_part(Millis(LENGTH - 1), 3), 0);
        assert_eq!(
            (end(Millis(0)), end(Millis(LENGTH - 1)), end(Millis(-1))),
            (Millis(LENGTH), Millis(LENGTH), Millis(0))
        );
        assert_eq!((current_part(Millis(7 * LENGTH), 1), current_part(Millis(7 * LENGTH), 0)), (0, 0));
    }
}
