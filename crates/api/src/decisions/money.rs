//! Micro-dollars in JSON: dollars as text, as in the output of `kerf plan`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serializer, de};

use crate::price;

/// Writes the amount.
///
/// # Errors
/// Returns the error of the serializer.
pub fn serialize<S: Serializer>(micro: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    match micro {
        Some(micro) => serializer.serialize_str(&price::dollars(*micro)),
        None => serializer.serialize_none(),
    }
}

/// Reads the amount.
///
/// # Errors
/// Returns an error if the value is not text with a decimal.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let (sign, amount) = text.strip_prefix('-').map_or((1, text.as_str()), |amount| (-1, amount));
    price::micro_dollars(amount).map(|micro| Some(sign * micro)).map_err(de::Error::custom)
}

/// Writes amounts by name.
///
/// # Errors
/// Returns the error of the serializer.
pub fn by_name<S: Serializer>(amounts: &BTreeMap<String, i64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(amounts.iter().map(|(name, micro)| (name, price::dollars(*micro))))
}

/// Amounts that are never missing.
pub mod required {
    use super::{Deserializer, Serializer, de};

    /// Writes the amount.
    ///
    /// # Errors
    /// Returns the error of the serializer.
    pub fn serialize<S: Serializer>(micro: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        super::serialize(&Some(*micro), serializer)
    }

    /// Reads the amount.
    ///
    /// # Errors
    /// Returns an error if the value is not text with a decimal.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        super::deserialize(deserializer)?.ok_or_else(|| de::Error::custom("an amount of dollars is missing"))
    }
}
