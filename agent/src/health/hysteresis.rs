//! A verdict that a single contrary answer does not change: the contrary answer must be repeated often and long enough. The
//! module has no clock: each answer has its time.

use std::time::Duration;

use drain::Millis;

/// Number of repetitions and duration that change a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hysteresis {
    /// Number of answers in a row; 0 counts as 1.
    pub times: u32,
    /// Duration since the first of these answers.
    pub span: Duration,
}

impl Hysteresis {
    /// Change with the first answer.
    pub const AT_ONCE: Self = Self { times: 1, span: Duration::ZERO };

    /// Returns a hysteresis of so many answers in a row.
    #[must_use]
    pub const fn times(times: u32) -> Self {
        Self { times, span: Duration::ZERO }
    }

    /// Returns a hysteresis of two answers in a row with at least this duration between them.
    #[must_use]
    pub const fn over(span: Duration) -> Self {
        Self { times: 2, span }
    }
}

/// A verdict with the answers that may change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    good: bool,
    since: Millis,
    rising: Hysteresis,
    falling: Hysteresis,
    doubt: Option<PendingChange>,
}

/// Answers in a row that contradict the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PendingChange {
    began: Millis,
    times: u32,
}

impl Verdict {
    /// Starts with `good` at `now`; `rising` applies to a change to good, `falling` to a change to bad.
    #[must_use]
    pub fn new(good: bool, rising: Hysteresis, falling: Hysteresis, now: Millis) -> Self {
        Self { good, since: now, rising, falling, doubt: None }
    }

    /// Records an answer; reports whether the verdict changed.
    pub fn take(&mut self, good: bool, now: Millis) -> bool {
        if good == self.good {
            self.doubt = None;
            return false;
        }
        let doubt = self.doubt.get_or_insert(PendingChange { began: now, times: 0 });
        doubt.times = doubt.times.saturating_add(1);
        let needed = if good { self.rising } else { self.falling };
        let steady = doubt.times >= needed.times && now.since(doubt.began) >= needed.span;
        if steady {
            (self.good, self.since, self.doubt) = (good, doubt.began, None);
        }
        steady
    }

    /// Reports whether the verdict is good.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.good
    }

    /// Returns since when the verdict holds: the time of the first answer that changed it.
    #[must_use]
    pub fn since(&self) -> Millis {
        self.since
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn steadiness() -> impl Strategy<Value = Hysteresis> {
        (0_u32..6, 0_u64..8).prop_map(|(times, span)| Hysteresis { times, span: Duration::from_secs(span) })
    }

    /// Returns the expected change by the simplest method: search the last answers anew each time.
    fn overturned(answers: &[(bool, Millis)], verdict: bool, needed: Hysteresis) -> Option<Millis> {
        let row: Vec<_> = answers.iter().rev().take_while(|(good, _)| *good != verdict).collect();
        let (first, last) = (row.last()?.1, row.first()?.1);
        let times = u32::try_from(row.len()).unwrap();
        (times >= needed.times && last.since(first) >= needed.span).then_some(first)
    }

    proptest! {
        #[test]
        fn verdict_changes_only_after_enough_answers_in_a_row(
            rising in steadiness(),
            falling in steadiness(),
            answers in prop::collection::vec((any::<bool>(), 0_u64..4), 1..80),
        ) {
            let mut verdict = Verdict::new(false, rising, falling, Millis(0));
            let (mut now, mut since, mut seen) = (Millis(0), Millis(0), Vec::new());
            for (good, pause) in answers {
                now = now + Duration::from_secs(pause);
                seen.push((good, now));
                let needed = if verdict.is_good() { falling } else { rising };
                let expected = overturned(&seen, verdict.is_good(), needed);
                prop_assert_eq!(verdict.take(good, now), expected.is_some());
                if let Some(first) = expected {
                    since = first;
                    // Answers before the change do not count again.
                    seen.clear();
                }
                prop_assert_eq!(verdict.since(), since);
            }
        }

        /// Tests that, after any earlier answers, the verdict finally matches a steady answer.
        #[test]
        fn verdict_matches_the_answers_when_they_are_steady(
            rising in steadiness(),
            falling in steadiness(),
            before in prop::collection::vec(any::<bool>(), 0..20),
            truth in any::<bool>(),
        ) {
            let mut verdict = Verdict::new(false, rising, falling, Millis(0));
            let answers = before.into_iter().chain(std::iter::repeat_n(truth, 10));
            for (second, good) in (0..).zip(answers) {
                verdict.take(good, Millis(second * 1000));
            }
            prop_assert_eq!(verdict.is_good(), truth);
        }
    }
}
