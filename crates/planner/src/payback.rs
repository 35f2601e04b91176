//! Payback period: the time in which new nodes must earn back their cost before they are usable.
//!
//! The lifetime of a fleet is unknown. A node that has existed for an hour is likely to be needed for another. A node that is a
//! minute old may soon be unsuitable. Frequent replacements for a few percent cost more in node starts than they save. The
//! payback period of a command is therefore the age of its youngest node, and a day at most. Ages count in doublings, by whole
//! minutes of the clock: time alone changes a decision at few moments, which are the same for many nodes.

use crate::Millis;

const MINUTE: i64 = 60_000;
/// Maximum age that counts, in minutes: one day.
const OLD: i64 = 24 * 60;
/// Number of doublings of minutes before that age.
const DOUBLINGS: u32 = OLD.ilog2();

/// Returns the milliseconds in which the replacement of a node must earn back its start.
pub(crate) fn payback_time(created: Millis, now: Millis) -> i64 {
    let minutes = (minute(now) - minute(created)).max(1);
    let counted = if minutes >= OLD { OLD } else { 1 << minutes.ilog2() };
    counted * MINUTE
}

/// Returns the moments at which the payback period increases.
pub(crate) fn moments(created: Millis) -> impl Iterator<Item = Millis> {
    let ages = (1..=DOUBLINGS).map(|doublings| 1 << doublings).chain([OLD]);
    ages.map(move |age| Millis((minute(created) + age).saturating_mul(MINUTE)))
}

fn minute(at: Millis) -> i64 {
    at.0.div_euclid(MINUTE)
}

#[cfg(test)]
mod tests {
    use super::{MINUTE, Millis, moments, payback_time};

    const CREATED: Millis = Millis(7 * MINUTE + 59_000);

    #[test]
    fn payback_time_doubles_with_age_and_ends_at_a_day() {
        let rows = [
            (-5, 1),
            (0, 1),
            (1, 1),
            (2, 2),
            (3, 2),
            (4, 4),
            (1023, 512),
            (1024, 1024),
            (1439, 1024),
            (1440, 1440),
            (9999, 1440),
        ];
        for (age, minutes) in rows {
            assert_eq!(payback_time(CREATED, Millis((7 + age) * MINUTE)), minutes * MINUTE, "{age}");
        }
    }

    #[test]
    fn moments_returns_every_change_of_payback_time() {
        let named: Vec<Millis> = moments(CREATED).collect();
        let changes = |at: &i64| payback_time(CREATED, Millis(*at)) != payback_time(CREATED, Millis(at - 1));
        let changed = (1..=2000).map(|minute| minute * MINUTE).filter(changes).map(Millis);
        assert_eq!(named, changed.collect::<Vec<_>>());
        assert!(!(CREATED.0 + 1..CREATED.0 + 30_000).any(|at| at % MINUTE != 0 && changes(&at)));
    }
}
