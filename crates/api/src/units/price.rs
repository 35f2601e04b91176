//! Conversion of money and factors from text to integers without floats: micro-dollars per hour, thousandths, millionths.

/// Decimal digits of a micro-dollar, and of the millionths in a percentage.
const MICRO_DIGITS: u32 = 6;
/// Decimal digits of a thousandth.
const MILLI_DIGITS: u32 = 3;
const MILLION: i128 = 1_000_000;
/// Highest premium in percent.
const MOST_PERCENT: u32 = 1000;

/// Error for a text that is not an amount of money.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a price: write dollars per hour as a decimal such as 0.096")]
pub struct InvalidPrice {
    /// Text as received.
    pub text: String,
}

/// Error for a text that is not a price adjustment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a price adjustment: write a sign and dollars such as -0.01, or a sign and a percentage down to -100% such as +10%"
)]
pub struct InvalidAdjustment {
    /// Text as received.
    pub text: String,
}

/// Error for a text that is not a performance factor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a factor: write a decimal from 0.001 to 1000 with at most three digits behind the point, such as 1.15"
)]
pub struct InvalidFactor {
    /// Text as received.
    pub text: String,
}

/// Error for a text that is not a share.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a share: write a percentage from 0% to 100% with at most one digit behind the point, such as 2.5%"
)]
pub struct InvalidShare {
    /// Text as received.
    pub text: String,
}

/// Error for a text that is not a premium.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a premium: write a whole percentage up to 1000% such as 10%, or 0, or unlimited")]
pub struct InvalidPremium {
    /// Text as received.
    pub text: String,
}

/// Change of a price per hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriceChange {
    /// New price in micro-dollars.
    Absolute(i64),
    /// Difference in micro-dollars.
    Shift(i64),
    /// Relative difference in millionths: 100,000 is ten percent more.
    Scale(i64),
}

impl PriceChange {
    /// Parses a signed amount of dollars or a signed percentage.
    ///
    /// # Errors
    /// Returns an error if the text is neither, or a percentage below -100 %.
    pub fn adjustment(text: &str) -> Result<Self, InvalidAdjustment> {
        read_adjustment(text).ok_or_else(|| InvalidAdjustment { text: text.to_owned() })
    }

    /// Returns the changed price in micro-dollars, rounded to the nearest, never below 0.
    #[must_use]
    pub fn apply(self, price: i64) -> i64 {
        let changed = match self {
            Self::Absolute(price) => i128::from(price),
            Self::Shift(by) => i128::from(price) + i128::from(by),
            Self::Scale(by) => (i128::from(price) * (MILLION + i128::from(by)) + MILLION / 2).div_euclid(MILLION),
        };
        i64::try_from(changed.max(0)).unwrap_or(i64::MAX)
    }
}

fn read_adjustment(text: &str) -> Option<PriceChange> {
    let unsigned = text.strip_prefix(['+', '-'])?;
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let Some(percent) = unsigned.strip_suffix('%') else {
        return Some(PriceChange::Shift(sign * decimal(unsigned, MICRO_DIGITS)?));
    };
    let millionths = sign * decimal(percent, MICRO_DIGITS - 2)?;
    (millionths >= -1_000_000).then_some(PriceChange::Scale(millionths))
}

/// Converts dollars per hour into micro-dollars, rounded to the nearest.
///
/// # Errors
/// Returns an error if the text is not a decimal of at least 0, or more than 9 trillion dollars.
pub fn micro_dollars(text: &str) -> Result<i64, InvalidPrice> {
    decimal(text, MICRO_DIGITS).ok_or_else(|| InvalidPrice { text: text.to_owned() })
}

/// Returns millionths of a dollar as dollars, with at most six decimals and without trailing zeros.
#[must_use]
pub fn dollars(micro: i64) -> String {
    let sign = if micro < 0 { "-" } else { "" };
    let (whole, fraction) = (micro.unsigned_abs() / 1_000_000, micro.unsigned_abs() % 1_000_000);
    let digits = format!("{fraction:06}");
    match digits.trim_end_matches('0') {
        "" => format!("{sign}{whole}"),
        digits => format!("{sign}{whole}.{digits}"),
    }
}

/// Converts a performance factor into thousandths: `1.15` is 1150.
///
/// # Errors
/// Returns an error if the text is not a decimal from 0.001 to 1000, or has more than three digits behind the point.
pub fn factor(text: &str) -> Result<u32, InvalidFactor> {
    let exact = text.split_once('.').is_none_or(|(_, fraction)| fraction.len() <= 3);
    let read = decimal(text, MILLI_DIGITS).filter(|n| exact && (1..=1_000_000).contains(n));
    read.and_then(|n| u32::try_from(n).ok()).ok_or_else(|| InvalidFactor { text: text.to_owned() })
}

/// Converts a percentage into thousandths: `2.5%` is 25.
///
/// # Errors
/// Returns an error if the text is not a percentage from 0 to 100, or has more than one digit behind the point.
pub fn share(text: &str) -> Result<u32, InvalidShare> {
    let percent =
        text.strip_suffix('%').filter(|percent| percent.split_once('.').is_none_or(|(_, tail)| tail.len() <= 1));
    let read = percent.and_then(|percent| decimal(percent, 1)).filter(|share| (0..=1000).contains(share));
    read.and_then(|share| u32::try_from(share).ok()).ok_or_else(|| InvalidShare { text: text.to_owned() })
}

/// Converts a premium into percent: `10%` is 10, and `unlimited` is `None`.
///
/// # Errors
/// Returns an error if the text is none of a whole percentage up to 1000, `0` and `unlimited`.
pub fn premium(text: &str) -> Result<Option<u32>, InvalidPremium> {
    match text {
        "unlimited" => return Ok(None),
        "0" => return Ok(Some(0)),
        _ => {}
    }
    let whole = text.strip_suffix('%').filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
    let percent = whole.and_then(|digits| digits.parse().ok()).filter(|percent| *percent <= MOST_PERCENT);
    percent.map(Some).ok_or_else(|| InvalidPremium { text: text.to_owned() })
}

/// Returns an unsigned decimal times ten to the power of `digits`, rounded to the nearest.
fn decimal(text: &str, digits: u32) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let all = || whole.bytes().chain(fraction.bytes());
    if all().count() == 0 || all().count() > 27 || !all().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scaled = number.checked_mul(10i128.pow(digits))?;
    let divisor = 10i128.pow(u32::try_from(fraction.len()).ok()?);
    i64::try_from((scaled + divisor / 2) / divisor).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_dollars_reads_decimals_and_rounds() {
        let rows = [
            ("0", Some(0)),
            ("1", Some(1_000_000)),
            ("0.096", Some(96_000)),
            (".5", Some(500_000)),
            ("5.", Some(5_000_000)),
            ("0.0000014", Some(1)),
            ("0.0000015", Some(2)),
            ("9223372036854", Some(9_223_372_036_854_000_000)),
            ("9223372036855", None),
            ("", None),
            (".", None),
            ("-1", None),
            ("+1", None),
            ("1e3", None),
            ("1 ", None),
            ("1.2.3", None),
            ("0.0000000000000000000000000000001", None),
        ];
        for (text, expected) in rows {
            assert_eq!(micro_dollars(text).ok(), expected, "{text}");
        }
        assert!(micro_dollars("cheap").unwrap_err().to_string().contains("\"cheap\""));
    }

    #[test]
    fn adjustment_reads_signed_dollars_and_percentages() {
        let rows = [
            ("+1.5", Some(PriceChange::Shift(1_500_000))),
            ("-0.01", Some(PriceChange::Shift(-10_000))),
            ("+.5", Some(PriceChange::Shift(500_000))),
            ("+10%", Some(PriceChange::Scale(100_000))),
            ("-10%", Some(PriceChange::Scale(-100_000))),
            ("-33.333%", Some(PriceChange::Scale(-333_330))),
            ("-100%", Some(PriceChange::Scale(-1_000_000))),
            ("+250%", Some(PriceChange::Scale(2_500_000))),
            ("-101%", None),
            ("10%", None),
            ("1", None),
            ("+", None),
            ("+%", None),
            ("+-1", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(PriceChange::adjustment(text).ok(), expected, "{text}");
        }
        assert!(PriceChange::adjustment("10").unwrap_err().to_string().contains("\"10\""));
    }

    #[test]
    fn apply_changes_a_price_and_rounds() {
        let rows = [
            (PriceChange::Absolute(7), 100, 7),
            (PriceChange::Shift(-30), 100, 70),
            (PriceChange::Shift(-130), 100, 0),
            (PriceChange::Scale(100_000), 96_000, 105_600),
            (PriceChange::Scale(-100_000), 96_000, 86_400),
            (PriceChange::Scale(-1_000_000), 96_000, 0),
            (PriceChange::Scale(333_330), 1, 1),
            (PriceChange::Scale(500_000), 1, 2),
            (PriceChange::Scale(9_000_000), i64::MAX, i64::MAX),
        ];
        for (change, before, after) in rows {
            assert_eq!(change.apply(before), after, "{change:?} of {before}");
        }
    }

    #[test]
    fn factor_reads_decimals_from_0_001_to_1000() {
        let rows = [
            ("1", Some(1000)),
            ("1.15", Some(1150)),
            ("0.001", Some(1)),
            ("1000", Some(1_000_000)),
            ("1.1500", None),
            ("0", None),
            ("0.0001", None),
            ("1000.001", None),
            ("-1", None),
            ("fast", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(factor(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn share_reads_percentages_up_to_100() {
        let rows = [
            ("0%", Some(0)),
            ("1%", Some(10)),
            ("2.5%", Some(25)),
            ("100%", Some(1000)),
            ("100.1%", None),
            ("2.55%", None),
            ("-1%", None),
            ("5", None),
            ("%", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(share(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn premium_reads_whole_percentages_and_unlimited() {
        let rows = [
            ("10%", Some(Some(10))),
            ("0%", Some(Some(0))),
            ("0", Some(Some(0))),
            ("1000%", Some(Some(1000))),
            ("unlimited", Some(None)),
            ("1001%", None),
            ("10", None),
            ("+5%", None),
            ("2.5%", None),
            ("%", None),
            ("Unlimited", None),
            ("", None),
        ];
        for (text, expected) in rows {
            assert_eq!(premium(text).ok(), expected, "{text}");
        }
        assert!(premium("much").unwrap_err().to_string().contains("\"much\" is not a premium"));
    }
}
