//! Times at which something applies, as text: `0 7 * * mon-fri for 11h in Europe/Berlin`.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::{Schedule, zone};
use crate::units::duration;

/// Error for a text that names no times.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} names no times: {problem}; write them like \"0 7 * * mon-fri for 11h in Europe/Berlin\", several with ; between them"
)]
pub struct InvalidTimes {
    /// Text as received.
    pub text: String,
    /// Problem of one of the times.
    pub problem: String,
}

/// Times that begin by schedules, each with a duration and a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times(Vec<OneTime>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct OneTime {
    schedule: Schedule,
    lasts: SignedDuration,
    zone: TimeZone,
}

impl Times {
    /// Parses `SCHEDULE for DURATION`, with `in TIME-ZONE` unless it is UTC. Semicolons separate several of them.
    ///
    /// # Errors
    /// Returns an error if one of them is invalid, or if there is none.
    pub fn read(text: &str) -> Result<Self, InvalidTimes> {
        let invalid = |problem: String| InvalidTimes { text: text.to_owned(), problem };
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        let times: Vec<OneTime> = parts.map(OneTime::read).collect::<Result<_, _>>().map_err(invalid)?;
        if times.is_empty() { Err(invalid("it is empty".to_owned())) } else { Ok(Self(times)) }
    }

    /// Reports whether times as text, such as an annotation, include this moment. Without a text, every moment is included.
    ///
    /// # Errors
    /// Returns the errors of [`Times::read`].
    pub fn are_now(text: Option<&str>, now: Timestamp) -> Result<bool, InvalidTimes> {
        text.map_or(Ok(true), |text| Ok(Self::read(text)?.include(now)))
    }

    /// Reports whether one of the times includes this moment.
    #[must_use]
    pub fn include(&self, now: Timestamp) -> bool {
        self.0.iter().any(|time| time.schedule.is_open(time.lasts, &time.zone, now))
    }
}

impl OneTime {
    fn read(text: &str) -> Result<Self, String> {
        let (schedule, rest) = text.split_once(" for ").ok_or_else(|| "the duration is missing".to_owned())?;
        let (lasts, zone_name) = match rest.split_once(" in ") {
            Some((lasts, name)) => (lasts, Some(name.trim())),
            None => (rest, None),
        };
        let lasts = duration::span(lasts.trim()).map_err(|error| error.to_string())?;
        Ok(Self {
            schedule: Schedule::read(schedule.trim()).map_err(|error| error.to_string())?,
            lasts: SignedDuration::from_nanos(lasts),
            zone: zone_name.map_or(Ok(TimeZone::UTC), zone).map_err(|error| error.to_string())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_include_moments_in_their_time_zone() {
        let times = Times::read("0 7 * * mon-fri for 11h in Europe/Berlin; 0 22 * * sat for 30m").unwrap();
        let rows = [
            ("2026-11-30T05:59:59Z", false),
            ("2026-11-30T06:00:00Z", true),
            ("2026-11-30T16:59:59Z", true),
            ("2026-11-30T17:00:00Z", false),
            ("2026-11-29T12:00:00Z", false),
            ("2026-11-28T22:10:00Z", true),
            ("2026-07-01T05:00:00Z", true),
        ];
        for (at, expected) in rows {
            assert_eq!(times.include(at.parse().unwrap()), expected, "{at}");
        }
    }

    #[test]
    fn times_name_their_problem() {
        let rows = [
            ("", "it is empty"),
            ("0 7 * * *", "the duration is missing"),
            ("0 7 * * * for long", "\"long\""),
            ("at seven for 2h", "\"at seven\" is not a schedule"),
            ("@daily for 2h in Mars", "\"Mars\" is not a time zone"),
        ];
        for (text, expected) in rows {
            let error = Times::read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
