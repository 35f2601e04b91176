//! When to say again what bootstrap waits for: at once when the reason changes, else every minute.

use jiff::{SignedDuration, Timestamp};

const REPEAT_AFTER: SignedDuration = SignedDuration::from_secs(60);

/// What was said so far.
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

/// Whether and how to say a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogDecision {
    /// It is new.
    Changed,
    /// It stands since then and was not said for a minute.
    Still {
        /// When it was new.
        since: Timestamp,
    },
    /// It was said just now.
    Nothing,
}

impl RetryLog {
    /// Takes note that `reason` stands in the way at `now`.
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
    fn a_change_at_once_and_the_same_every_minute() {
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
