//! Within what time new nodes must earn back what they cost before they are of use.
//!
//! Nobody knows for how long a fleet will do. What has stood for an hour is likely to stand for another; what came a minute ago may be
//! wanted otherwise in the next, and to exchange it for a few percent each time costs more in boots than it saves. So a move has as long
//! as the youngest of its nodes has stood, and a day at most. Ages count in doublings, by whole minutes of the clock: time alone changes
//! an answer at few moments, which are the same for many nodes.

use crate::Millis;

const MINUTE: i64 = 60_000;
/// Whoever has stood for so many minutes, a day, counts as old.
const OLD: i64 = 24 * 60;
/// Minutes double so often before that.
const DOUBLINGS: u32 = OLD.ilog2();

/// The milliseconds within which what comes in the place of a node must have earned its start.
pub(crate) fn payback_time(created: Millis, now: Millis) -> i64 {
    let minutes = (minute(now) - minute(created)).max(1);
    let counted = if minutes >= OLD { OLD } else { 1 << minutes.ilog2() };
    counted * MINUTE
}

/// The moments at which that becomes longer.
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
    fn it_doubles_with_the_age_and_ends_at_a_day() {
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
    fn it_changes_at_the_moments_that_are_named_and_at_no_others() {
        let named: Vec<Millis> = moments(CREATED).collect();
        let changes = |at: &i64| payback_time(CREATED, Millis(*at)) != payback_time(CREATED, Millis(at - 1));
        let changed = (1..=2000).map(|minute| minute * MINUTE).filter(changes).map(Millis);
        assert_eq!(named, changed.collect::<Vec<_>>());
        assert!(!(CREATED.0 + 1..CREATED.0 + 30_000).any(|at| at % MINUTE != 0 && changes(&at)));
    }
}
