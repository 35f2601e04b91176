//! Durations that keep their original text: `720h` is written back as `720h`. `Never` means no duration. The syntax is that of
//! Go; crates such as `humantime` accept another one.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Text for no duration.
pub const NEVER: &str = "Never";

/// Error for a text that is neither a duration nor `Never`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: write hours, minutes and seconds such as 1h30m or 45s, or Never")]
pub struct InvalidDuration {
    /// Text as received.
    pub text: String,
}

/// Error for a text that is not a duration of 0 or more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration of 0s or more: write hours, minutes and seconds such as 1h30m or 45s")]
pub struct InvalidSpan {
    /// Text as received.
    pub text: String,
}

/// Returns the nanoseconds of a Go duration that is not negative, for delays and lengths of time.
///
/// # Errors
/// Returns an error if the text is not a Go duration, is negative, or does not fit 64 bits of nanoseconds (292 years).
pub fn span(text: &str) -> Result<i64, InvalidSpan> {
    let nanos = nanos(text).ok().filter(|nanos| *nanos >= 0);
    nanos.ok_or_else(|| InvalidSpan { text: text.to_owned() })
}

/// Duration that keeps its text, so that an object is written back without changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct DurationText(pub String);

impl DurationText {
    /// Returns the text `Never`.
    #[must_use]
    pub fn never() -> Self {
        Self(NEVER.to_owned())
    }

    /// Returns the nanoseconds; `None` for `Never`.
    ///
    /// # Errors
    /// Returns an error if the text is neither a Go duration nor `Never`.
    pub fn nanos(&self) -> Result<Option<i64>, InvalidDuration> {
        if self.0 == NEVER {
            return Ok(None);
        }
        nanos(&self.0).map(Some)
    }

    /// Returns the whole seconds, rounded down; `None` for `Never`.
    ///
    /// # Errors
    /// Returns an error if the text is neither a Go duration nor `Never`.
    pub fn seconds(&self) -> Result<Option<i64>, InvalidDuration> {
        Ok(self.nanos()?.map(|n| n.div_euclid(NANOS_PER_SECOND)))
    }

    /// Returns the duration in jiff's type; `None` for `Never`.
    ///
    /// # Errors
    /// Returns an error if the text is neither a Go duration nor `Never`.
    pub fn signed(&self) -> Result<Option<jiff::SignedDuration>, InvalidDuration> {
        Ok(self.nanos()?.map(jiff::SignedDuration::from_nanos))
    }
}

impl From<&str> for DurationText {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Returns the nanoseconds of a Go duration such as `1h30m`, `-1.5s` or `0`.
///
/// # Errors
/// Returns an error if the text is not a Go duration, or does not fit 64 bits of nanoseconds (292 years).
pub fn nanos(text: &str) -> Result<i64, InvalidDuration> {
    read(text).ok_or_else(|| InvalidDuration { text: text.to_owned() })
}

fn read(text: &str) -> Option<i64> {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0i128;
    while !rest.is_empty() {
        let (part, left) = component(rest)?;
        total = total.checked_add(part)?;
        rest = left;
    }
    let signed = if text.starts_with('-') { -total } else { total };
    i64::try_from(signed).ok()
}

/// Returns the first number with its unit, in nanoseconds, and the rest of the text.
fn component(text: &str) -> Option<(i128, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, tail) = text.split_at(end);
    let (unit, left) = unit(tail)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || number.len() > 19 {
        return None;
    }
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let divisor = 10i128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    Some((digits.checked_mul(unit)? / divisor, left))
}

/// Returns the nanoseconds of the unit at the beginning of `text`, and the rest of the text.
fn unit(text: &str) -> Option<(i128, &str)> {
    const SECOND: i128 = 1_000_000_000;
    [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("μs", 1_000),
        ("ms", 1_000_000),
        ("s", SECOND),
        ("m", 60 * SECOND),
        ("h", 3600 * SECOND),
    ]
    .into_iter()
    .find_map(|(name, nanos)| Some((nanos, text.strip_prefix(name)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanos_reads_go_durations() {
        let rows = [
            ("0", 0),
            ("0s", 0),
            ("45s", 45_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("720h", 2_592_000_000_000_000),
            ("1.5s", 1_500_000_000),
            (".5m", 30_000_000_000),
            ("-1m", -60_000_000_000),
            ("10ms", 10_000_000),
            ("3us", 3_000),
            ("3µs", 3_000),
            ("7ns", 7),
            ("1m1s1m", 121_000_000_000),
        ];
        for (text, expected) in rows {
            assert_eq!(nanos(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn nanos_refuses_text_that_is_not_a_duration() {
        for text in ["", "-", "5", "s", "1d", "1h 2m", "never", ".s", "1x", "9999999999h"] {
            let error = nanos(text).unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn span_refuses_negative_durations() {
        assert_eq!((span("0s"), span("1h30m")), (Ok(0), Ok(5_400_000_000_000)));
        for text in ["-1ns", "-4h", "soon", "Never", ""] {
            let error = span(text).unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?} is not a duration of 0s or more")), "{error}");
        }
        assert_eq!(span("-0s"), Ok(0));
    }

    #[test]
    fn duration_text_keeps_its_text() {
        let rows =
            [("\"720h\"", Some(2_592_000)), ("\"1h30m\"", Some(5400)), ("\"1999ms\"", Some(1)), ("\"Never\"", None)];
        for (json, seconds) in rows {
            let read: DurationText = serde_json::from_str(json).unwrap();
            assert_eq!(read.seconds().unwrap(), seconds);
            assert_eq!(serde_json::to_string(&read).unwrap(), json);
        }
    }
}
