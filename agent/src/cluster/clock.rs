//! Time of the API server, for a machine whose clock is wrong: tokens contain the time of their signature.

use hyper::HeaderMap;
use jiff::{SignedDuration, Timestamp, Unit};
use parking_lot::Mutex;

use crate::host::clock::date;

/// Least skew that counts. A smaller one comes from the server's whole seconds and the latency of the response.
const NOTABLE: SignedDuration = SignedDuration::from_mins(1);

/// Skew of our clock against the server's; zero while it is below `NOTABLE`.
#[derive(Debug, Default)]
pub(super) struct Clock {
    behind: Mutex<SignedDuration>,
}

impl Clock {
    /// Returns the current time by the server's clock.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::now() + self.behind()
    }

    /// Updates the skew from the date of a response.
    pub(super) fn learn(&self, headers: &HeaderMap) {
        if let Some(date) = date(headers) {
            *self.behind.lock() = behind(date, Timestamp::now());
        }
    }

    /// Returns a clause about the skew, to be appended to a sentence.
    pub(super) fn complaint(&self) -> String {
        complaint(self.behind())
    }

    /// Returns how far our clock is behind.
    pub(super) fn behind(&self) -> SignedDuration {
        *self.behind.lock()
    }
}

fn behind(theirs: Timestamp, ours: Timestamp) -> SignedDuration {
    Some(theirs.duration_since(ours)).filter(|skew| skew.abs() >= NOTABLE).unwrap_or_default()
}

fn complaint(behind: SignedDuration) -> String {
    let (amount, side) = (behind.abs(), if behind.is_negative() { "ahead of" } else { "behind" });
    let amount = amount.round(Unit::Minute).unwrap_or(amount);
    match behind.is_zero() {
        true => String::new(),
        false => format!("; also correct the clock, it is {amount:#} {side} the API server's (see `chronyc tracking`)"),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::DATE;

    use super::*;

    #[test]
    fn clock_corrects_skew_when_it_is_a_minute_or_more() {
        let at = |seconds| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        let rows = [
            (0, 59, String::new()),
            (59, 0, String::new()),
            (
                1200,
                0,
                "; also correct the clock, it is 20m behind the API server's (see `chronyc tracking`)".to_owned(),
            ),
            (
                0,
                7200,
                "; also correct the clock, it is 2h ahead of the API server's (see `chronyc tracking`)".to_owned(),
            ),
        ];
        for (theirs, ours, complaint_text) in rows {
            assert_eq!(complaint(behind(at(theirs), at(ours))), complaint_text);
        }
        let clock = Clock::default();
        let hour_ahead = (Timestamp::now() + SignedDuration::from_hours(1)).strftime("%a, %d %b %Y %H:%M:%S GMT");
        let headers = HeaderMap::from_iter([(DATE, hour_ahead.to_string().parse().unwrap_or_else(|_| unreachable!()))]);
        clock.learn(&headers);
        let off = clock.now().duration_since(Timestamp::now()) - SignedDuration::from_hours(1);
        assert!(off.abs() < SignedDuration::from_secs(10), "{off:#}");
        clock.learn(&HeaderMap::new());
        assert!(!clock.behind().is_zero(), "an answer without a date says nothing");
    }
}
