//! Kubernetes quantities: conversion of text such as `1500m` or `2Gi` to integers and back, without floats. `kube_quantity`
//! computes with decimal fractions; the planner needs saturating integers of fixed units, and the CRDs a schema.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Resource name of CPU, counted in thousandths of a core.
pub const CPU: &str = "cpu";
/// Resource name of memory, in bytes.
pub const MEMORY: &str = "memory";
/// Resource name of ephemeral storage, in bytes.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Resource name of pods, a count.
pub const PODS: &str = "pods";
/// Pseudo resource in the limits and the status of a NodePool: its number of nodes.
pub const NODES: &str = "nodes";

/// Regular expression of the quantities that Kubernetes accepts.
pub const PATTERN: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// Error for a text that is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a quantity: write an integer or decimal with an optional suffix, such as 1500m, 2 or 4Gi")]
pub struct InvalidQuantity {
    /// Text as received.
    pub text: String,
}

/// Quantity that keeps its text. Its JSON is an integer or a string when read, and always a string when written.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Quantity(pub String);

impl Quantity {
    /// Returns whole units, rounded away from zero, saturating at the limits of `i64`.
    ///
    /// # Errors
    /// Returns an error if the text is not a quantity.
    pub fn units(&self) -> Result<i64, InvalidQuantity> {
        units(&self.0)
    }

    /// Returns thousandths, rounded away from zero, saturating at the limits of `i64`.
    ///
    /// # Errors
    /// Returns an error if the text is not a quantity.
    pub fn millis(&self) -> Result<i64, InvalidQuantity> {
        millis(&self.0)
    }

    /// Returns the amount in Kerf's unit for `resource`: millicores for CPU, whole units for all others.
    ///
    /// # Errors
    /// Returns an error if the text is not a quantity.
    pub fn amount(&self, resource: &str) -> Result<i64, InvalidQuantity> {
        amount(resource, &self.0)
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Quantity {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IntegerOrText;
        impl Visitor<'_> for IntegerOrText {
            type Value = Quantity;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: an integer or a text")
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<Quantity, E> {
                Ok(Quantity(v.to_string()))
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<Quantity, E> {
                Ok(Quantity(v.to_string()))
            }
            fn visit_f64<E: de::Error>(self, v: f64) -> Result<Quantity, E> {
                Ok(Quantity(v.to_string()))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Quantity, E> {
                Ok(Quantity(v.to_owned()))
            }
        }
        deserializer.deserialize_any(IntegerOrText)
    }
}

impl JsonSchema for Quantity {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Quantity".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "anyOf": [{ "type": "integer" }, { "type": "string" }],
            "pattern": PATTERN,
        })
    }
}

/// Returns the whole units of a quantity text, rounded away from zero, saturating at the limits of `i64`.
///
/// # Errors
/// Returns an error if the text is not a quantity.
pub fn units(text: &str) -> Result<i64, InvalidQuantity> {
    Ok(Parts::read(text)?.scaled(0))
}

/// Returns the thousandths of a quantity text, rounded away from zero, saturating at the limits of `i64`.
///
/// # Errors
/// Returns an error if the text is not a quantity.
pub fn millis(text: &str) -> Result<i64, InvalidQuantity> {
    Ok(Parts::read(text)?.scaled(3))
}

/// Returns the amount of `resource` in Kerf's unit: millicores for CPU, whole units for all others.
///
/// # Errors
/// Returns an error if the text is not a quantity.
pub fn amount(resource: &str, text: &str) -> Result<i64, InvalidQuantity> {
    if resource == CPU { millis(text) } else { units(text) }
}

/// Returns the canonical text of an amount of `resource`, the inverse of [`amount`].
#[must_use]
pub fn text(resource: &str, amount: i64) -> String {
    match resource {
        CPU => cpu_text(amount),
        MEMORY | EPHEMERAL_STORAGE => bytes_text(amount),
        name if name.starts_with("hugepages-") => bytes_text(amount),
        _ => amount.to_string(),
    }
}

/// Returns the quantities of these amounts, each in Kerf's unit for its resource.
pub fn list<'a>(amounts: impl IntoIterator<Item = (&'a str, i64)>) -> BTreeMap<String, Quantity> {
    amounts.into_iter().map(|(name, amount)| (name.to_owned(), Quantity(text(name, amount)))).collect()
}

/// Returns the canonical text of millicores: whole cores where exact, otherwise thousandths.
#[must_use]
pub fn cpu_text(millicores: i64) -> String {
    if millicores % 1000 == 0 { (millicores / 1000).to_string() } else { format!("{millicores}m") }
}

/// Returns the canonical text of bytes, with the largest binary suffix that is exact.
#[must_use]
pub fn bytes_text(bytes: i64) -> String {
    let mut value = bytes;
    let mut suffix = "";
    for larger in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
        if value == 0 || value % 1024 != 0 {
            break;
        }
        value /= 1024;
        suffix = larger;
    }
    format!("{value}{suffix}")
}

/// Number of the form `±digits × 10^exponent × 2^shift`.
struct Parts {
    negative: bool,
    digits: i128,
    exponent: i32,
    shift: u32,
}

impl Parts {
    fn read(text: &str) -> Result<Self, InvalidQuantity> {
        Self::split(text).ok_or_else(|| InvalidQuantity { text: text.to_owned() })
    }

    fn split(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (digits, fraction) = decimal(number)?;
        let (exponent, shift) = multiplier(suffix)?;
        Some(Self { negative: text.starts_with('-'), digits, exponent: exponent.checked_sub(fraction)?, shift })
    }

    /// Returns `self × 10^scale` as an integer, rounded away from zero, saturated.
    fn scaled(&self, scale: i32) -> i64 {
        let magnitude = i64::try_from(self.magnitude(scale)).unwrap_or(i64::MAX);
        if self.negative { -magnitude } else { magnitude }
    }

    fn magnitude(&self, scale: i32) -> i128 {
        if self.digits == 0 {
            return 0;
        }
        let exponent = self.exponent.saturating_add(scale);
        let power = 10i128.checked_pow(exponent.unsigned_abs());
        let shifted = self.digits.checked_mul(1i128 << self.shift);
        match (exponent >= 0, shifted, power) {
            (true, Some(shifted), Some(power)) => shifted.checked_mul(power).unwrap_or(i128::MAX),
            (true, ..) | (false, None, _) => i128::MAX,
            (false, Some(shifted), Some(power)) => (shifted - 1) / power + 1,
            (false, Some(_), None) => 1,
        }
    }
}

/// Returns the digits without the decimal point, and the number of digits after the point.
fn decimal(number: &str) -> Option<(i128, i32)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // A number of 28 or more digits is beyond every limit and would overflow the arithmetic below.
    if whole.len() + fraction.len() > 27 {
        return None;
    }
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, i32::try_from(fraction.len()).ok()?))
}

/// Returns the decimal exponent and the binary shift of a suffix.
fn multiplier(suffix: &str) -> Option<(i32, u32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => (suffix.strip_prefix(['e', 'E'])?.parse().ok()?, 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_millis_read_quantities() {
        let rows = [
            ("0", 0, 0),
            ("1", 1, 1000),
            ("+2", 2, 2000),
            ("-2", -2, -2000),
            ("100m", 1, 100),
            ("1500m", 2, 1500),
            ("-1500m", -2, -1500),
            ("0.1", 1, 100),
            (".5", 1, 500),
            ("5.", 5, 5000),
            ("1u", 1, 1),
            ("1n", 1, 1),
            ("1500u", 1, 2),
            ("2k", 2_000, 2_000_000),
            ("3M", 3_000_000, 3_000_000_000),
            ("4G", 4_000_000_000, 4_000_000_000_000),
            ("1T", 1_000_000_000_000, 1_000_000_000_000_000),
            ("1P", 1_000_000_000_000_000, 1_000_000_000_000_000_000),
            ("1E", 1_000_000_000_000_000_000, i64::MAX),
            ("1Ki", 1024, 1_024_000),
            ("1.5Mi", 1_572_864, 1_572_864_000),
            ("0.5Gi", 536_870_912, 536_870_912_000),
            ("2Ti", 2_199_023_255_552, 2_199_023_255_552_000),
            ("1Pi", 1_125_899_906_842_624, 1_125_899_906_842_624_000),
            ("1Ei", 1_152_921_504_606_846_976, i64::MAX),
            ("1e3", 1000, 1_000_000),
            ("1E3", 1000, 1_000_000),
            ("12e-1", 2, 1200),
            ("1e99", i64::MAX, i64::MAX),
            ("1e-99", 1, 1),
            ("0e99", 0, 0),
            ("9223372036854775807", i64::MAX, i64::MAX),
            ("99999999999999999999", i64::MAX, i64::MAX),
        ];
        for (text, whole, thousandths) in rows {
            assert_eq!(units(text).unwrap(), whole, "units of {text}");
            assert_eq!(millis(text).unwrap(), thousandths, "millis of {text}");
        }
    }

    #[test]
    fn units_refuses_text_that_is_not_a_quantity() {
        for text in
            ["", ".", "-", "m", "1 Gi", "1gi", "1K", "1KiB", "1e", "1e1.5", "0x10", "1..2", "--1", "1_000", "NaN"]
        {
            let error = units(text).unwrap_err();
            assert!(error.to_string().contains(&format!("{text:?}")), "{error}");
        }
    }

    #[test]
    fn text_writes_canonical_quantities() {
        let rows = [
            (CPU, 1500, "1500m"),
            (CPU, 2000, "2"),
            (CPU, 0, "0"),
            (MEMORY, 0, "0"),
            (MEMORY, 1000, "1000"),
            (MEMORY, 1024, "1Ki"),
            (MEMORY, 1_572_864, "1536Ki"),
            (MEMORY, 8_589_934_592, "8Gi"),
            (EPHEMERAL_STORAGE, 1_099_511_627_776, "1Ti"),
            ("hugepages-2Mi", 2_097_152, "2Mi"),
            (PODS, 1024, "1024"),
            ("nvidia.com/gpu", 8, "8"),
        ];
        for (resource, value, expected) in rows {
            assert_eq!(text(resource, value), expected);
            assert_eq!(amount(resource, expected).unwrap(), value, "{expected}");
        }
    }

    #[test]
    fn quantity_deserializes_integers_and_strings() {
        let read: Vec<Quantity> = serde_json::from_str(r#"[1000, "1Gi", -1]"#).unwrap();
        assert_eq!(read, ["1000", "1Gi", "-1"].map(Quantity::from));
        assert_eq!(serde_json::to_string(&read).unwrap(), r#"["1000","1Gi","-1"]"#);
    }
}
