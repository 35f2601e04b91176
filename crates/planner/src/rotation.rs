//! Rotation of work that is too much for one plan.
//!
//! A command that saves money begins when every plan during the validation time has contained it, so consecutive plans must
//! cover the same part. A part is current for twice the validation time, by the clock. No state is needed, and after one
//! rotation all parts have been covered.

use std::ops::Range;

use crate::{Millis, Validation};

/// Time for which plans cover the same part, in milliseconds.
const LENGTH: i64 = 2 * Validation::TIME;

/// Returns the current one of this many parts.
pub(crate) fn current_part(now: Millis, parts: usize) -> usize {
    let parts = i64::try_from(parts.max(1)).unwrap_or(i64::MAX);
    usize::try_from(now.0.div_euclid(LENGTH).rem_euclid(parts)).unwrap_or(0)
}

/// Returns the time at which the next part becomes current.
pub(crate) fn end(now: Millis) -> Millis {
    Millis((now.0.div_euclid(LENGTH) + 1).saturating_mul(LENGTH))
}

/// Divides a list, given the effort of each element, into parts of at most `most` effort. An element with more effort is a part
/// of its own.
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

    /// Efforts, and the expected bounds of the parts.
    type Row = (&'static [usize], &'static [(usize, usize)]);

    #[test]
    fn parts_splits_efforts_in_order_within_the_maximum() {
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
    fn current_part_rotates_through_all_parts_by_the_clock() {
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
