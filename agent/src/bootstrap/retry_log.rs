//! Repetition of bootstrap's obstacle in the log: at once when the reason changes, else every minute.

use jiff::{SignedDuration, Timestamp};

const REPEAT_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// Last logged reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetryLog {
    current: Option<Reason>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Reason {
    text: String,
    since: Timestamp,
    said_at: Timestamp,
}

/// Decision on logging a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogDecision {
    /// The reason is new.
    Changed,
    /// The reason is unchanged and was not logged for a minute.
    Still {
        /// Time at which the reason was new.
        since: Timestamp,
    },
    /// The reason was logged less than a minute ago.
    Nothing,
}

impl RetryLog {
    /// Records that `reason` is the obstacle at `now`, and returns whether to log it.
    pub fn observe(&mut self, reason: &str, now: Timestamp) -> LogDecision {
        match &mut self.current {
            Some(current) if current.text == reason => {
                if now.duration_since(current.said_at) < REPEAT_AFTER {
                    return LogDecision::Nothing;
                }
                current.said_at = now;
                LogDecision::Still { since: current.since }
            }
            current => {
                *current = Some(Reason { text: reason.to_owned(), since: now, said_at: now });
                LogDecision::Changed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observe_repeats_a_reason_every_minute_when_unchanged() {
        let at = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        let mut waiting = RetryLog::default();
        for (seconds, reason, expected) in [
            (0, "a", LogDecision::Changed),
            (1, "a", LogDecision::Nothing),
            (59, "a", LogDecision::Nothing),
            (60, "a", LogDecision::Still { since: at(0) }),
            (61, "a", LogDecision::Nothing),
            (62, "b", LogDecision::Changed),
            (63, "a", LogDecision::Changed),
            (130, "a", LogDecision::Still { since: at(63) }),
        ] {
            assert_eq!(waiting.observe(reason, at(seconds)), expected, "{seconds} s");
        }
    }
}
