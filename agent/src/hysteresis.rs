//! A verdict that one odd answer does not overturn: it changes only when the other answer has been repeated often and long enough.
//! No clock: each answer comes with its moment.

use std::time::Duration;

use drain::Millis;

/// How steadily an answer must be repeated before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hysteresis {
    /// So many times in a row; 0 counts as 1.
    pub times: u32,
    /// For so long since the first of them.
    pub span: Duration,
}

impl Hysteresis {
    /// The first answer counts.
    pub const AT_ONCE: Self = Self { times: 1, span: Duration::ZERO };

    /// After so many answers in a row.
    #[must_use]
    pub const fn times(times: u32) -> Self {
        Self { times, span: Duration::ZERO }
    }

    /// After two answers in a row that lie at least so far apart.
    #[must_use]
    pub const fn over(span: Duration) -> Self {
        Self { times: 2, span }
    }
}

/// The verdict and what may overturn it.
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
    /// Begins with `good` at `now`; `rising` makes it good, `falling` bad.
    #[must_use]
    pub fn new(good: bool, rising: Hysteresis, falling: Hysteresis, now: Millis) -> Self {
        Self { good, since: now, rising, falling, doubt: None }
    }

    /// Takes an answer in; whether it overturned the verdict.
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

    /// Whether it is good.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.good
    }

    /// Since when it is what it is: the first of the answers that made it so.
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

    /// The plain way to say it: the last answers, looked through anew each time.
    fn overturned(answers: &[(bool, Millis)], verdict: bool, needed: Hysteresis) -> Option<Millis> {
        let row: Vec<_> = answers.iter().rev().take_while(|(good, _)| *good != verdict).collect();
        let (first, last) = (row.last()?.1, row.first()?.1);
        let times = u32::try_from(row.len()).unwrap();
        (times >= needed.times && last.since(first) >= needed.span).then_some(first)
    }

    proptest! {
        #[test]
        fn only_a_row_that_is_long_enough_overturns_it(
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
                    // Answers before it was overturned do not count again.
                    seen.clear();
                }
                prop_assert_eq!(verdict.since(), since);
            }
        }

        /// Whatever came before: what is answered steadily is the verdict in the end.
        #[test]
        fn in_the_end_it_is_the_truth(
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
