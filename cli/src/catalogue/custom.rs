//! Catalogue from a JSON file: instance types with capacity, overhead, labels and offerings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use api::{Quantity, label};
use cloud::data;
use planner::{CapacityType, InstanceType, MicroDollars, Offering, Reservation, Resources};
use serde::Deserialize;
use serde_json::{Number, Value};

use crate::failure::Failure;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    instance_types: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    capacity: BTreeMap<String, Quantity>,
    overhead: Option<BTreeMap<String, Quantity>>,
    labels: Option<BTreeMap<String, Values>>,
    offerings: Vec<Sold>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a label value or a list of label values")]
enum Values {
    One(String),
    Several(Vec<String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sold {
    zone: String,
    capacity_type: CapacityType,
    price: Price,
    available: Option<bool>,
    #[serde(rename = "reservationID")]
    reservation_id: Option<String>,
    reservation_capacity: Option<u32>,
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a price in dollars per hour")]
enum Price {
    Number(Number),
    Text(String),
}

/// Content of a catalogue file.
pub struct Custom {
    /// Instance types, sorted by name.
    pub types: Vec<InstanceType>,
    /// One warning for every unknown field, which may be a typing mistake.
    pub warnings: Vec<String>,
}

/// Fields of the format, by their level.
const FIELDS: [(&str, &[&str]); 3] = [
    ("", &["instanceTypes"]),
    ("instanceTypes", &["name", "capacity", "overhead", "labels", "offerings"]),
    ("offerings", &["zone", "capacityType", "price", "available", "reservationID", "reservationCapacity", "labels"]),
];

/// Reads a catalogue from a file.
///
/// # Errors
/// Returns an error if the file cannot be read or has an invalid value; the message contains the field.
pub fn read(path: &Path) -> Result<Custom, Failure> {
    let wrong = |problem: String| Failure::usage(format!("{}: {problem}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|error| wrong(format!("cannot be read: {error}; check the path and its permissions")))?;
    let types = parse(&text).map_err(|problem| wrong(format!("{problem}; docs/plan-format.md has the format")))?;
    Ok(Custom { types, warnings: unknown_fields(&text) })
}

/// Parses the text of a catalogue, as [`read`] does.
fn parse(text: &str) -> Result<Vec<InstanceType>, String> {
    let mut source = serde_json::Deserializer::from_str(text);
    let file: File = serde_path_to_error::deserialize(&mut source).map_err(|error| {
        let path = error.path().to_string();
        let at = if path == "?" { String::new() } else { format!("{path}: ") };
        format!("{at}{}", error.into_inner())
    })?;
    let mut types = Vec::with_capacity(file.instance_types.len());
    let mut names = BTreeSet::new();
    for (index, row) in file.instance_types.into_iter().enumerate() {
        let at = format!("instanceTypes[{index}]");
        if row.name.is_empty() || !names.insert(row.name.clone()) {
            return Err(format!("{at}.name: {:?} is empty or repeated", row.name));
        }
        types.push(instance_type(row, &at)?);
    }
    types.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(types)
}

/// Returns warnings for fields outside the format; the same field of several types is reported once.
fn unknown_fields(text: &str) -> Vec<String> {
    let mut found = BTreeSet::new();
    collect_unknown(&serde_json::from_str(text).unwrap_or_default(), "", &mut found);
    found.into_iter().map(|path| format!("--catalogue: {path} is not a field and is ignored")).collect()
}

fn collect_unknown(value: &Value, level: &str, found: &mut BTreeSet<String>) {
    let known = FIELDS.iter().find(|(name, _)| *name == level).map_or(&[][..], |(_, fields)| *fields);
    for (name, inner) in value.as_object().into_iter().flatten() {
        if !known.contains(&name.as_str()) {
            found.insert(format!("{}{name}", if level.is_empty() { String::new() } else { format!("{level}[].") }));
        } else if FIELDS.iter().any(|(list, _)| *list == name) {
            inner.as_array().into_iter().flatten().for_each(|item| collect_unknown(item, name, found));
        }
    }
}

fn instance_type(row: Row, at: &str) -> Result<InstanceType, String> {
    let capacity = resources(&row.capacity, &format!("{at}.capacity"))?;
    let overhead = resources(&row.overhead.unwrap_or_default(), &format!("{at}.overhead"))?;
    let mut offerings = Vec::with_capacity(row.offerings.len());
    for (index, sold) in row.offerings.into_iter().enumerate() {
        offerings.push(offering(sold, &format!("{at}.offerings[{index}]"))?);
    }
    let mut labels: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, values) in row.labels.unwrap_or_default() {
        let values = match values {
            Values::One(value) => vec![value],
            Values::Several(values) => values,
        };
        labels.insert(label::canonical(&key).to_owned(), values);
    }
    labels.entry(label::INSTANCE_TYPE.to_owned()).or_insert_with(|| vec![row.name.clone()]);
    // Kerf launches only Linux nodes.
    labels.entry(label::OS.to_owned()).or_insert_with(|| vec![label::OS_LINUX.to_owned()]);
    let allocatable = allocatable(&capacity, &overhead);
    Ok(InstanceType { name: row.name, labels, capacity, allocatable, offerings, ..InstanceType::default() })
}

/// Returns capacity less overhead; memory also excludes huge pages.
fn allocatable(capacity: &Resources, overhead: &Resources) -> Resources {
    let mut left = capacity.clone();
    left.subtract(overhead);
    let huge: i64 = capacity.iter().filter(|(name, _)| name.starts_with("hugepages-")).map(|(_, bytes)| bytes).sum();
    left.subtract(&[(Resources::MEMORY, huge)].into_iter().collect());
    left.iter()
        .filter(|(name, _)| capacity.names(name))
        .map(|(name, amount)| (name.to_owned(), amount.max(0)))
        .collect()
}

fn resources(amounts: &BTreeMap<String, Quantity>, at: &str) -> Result<Resources, String> {
    let each = |(name, quantity): (&String, &Quantity)| match quantity.amount(name) {
        Ok(amount) => Ok((name.clone(), amount)),
        Err(error) => Err(format!("{at}[{name}]: {error}")),
    };
    amounts.iter().map(each).collect()
}

fn offering(sold: Sold, at: &str) -> Result<Offering, String> {
    let price = match &sold.price {
        Price::Text(text) => data::scaled(text, 6),
        Price::Number(number) => micro_dollars(number),
    };
    let Some(price) = price else { return Err(format!("{at}.price: not a price in dollars per hour")) };
    let reservation = match (sold.capacity_type, sold.reservation_id) {
        (CapacityType::Reserved, Some(id)) if !id.is_empty() => {
            Some(Reservation { id, remaining: sold.reservation_capacity.unwrap_or(0) })
        }
        (CapacityType::Reserved, _) => return Err(format!("{at}.reservationID: missing for a reserved offering")),
        (_, _) => None,
    };
    let mut labels = sold.labels.unwrap_or_default();
    if let Some(reservation) = &reservation {
        labels.entry(label::CAPACITY_RESERVATION_ID.to_owned()).or_insert_with(|| reservation.id.clone());
    }
    Ok(Offering {
        zone: sold.zone,
        capacity_type: sold.capacity_type,
        price: MicroDollars(price),
        premium: MicroDollars(0),
        available: sold.available.unwrap_or(true),
        labels,
        reservation,
    })
}

/// Converts dollars to millionths of a dollar, rounded half up. An exponent such as in `5e-7` is expanded first.
fn micro_dollars(number: &Number) -> Option<i64> {
    let text = number.to_string();
    let Some((digits, exponent)) = text.split_once(['e', 'E']) else { return data::scaled(&text, 6) };
    let exponent: i32 = exponent.parse().ok()?;
    match usize::try_from(exponent) {
        Ok(zeros) => data::scaled(digits, zeros.checked_add(6).filter(|scale| *scale < 20)?),
        // The mantissa has one digit before the point.
        Err(_) => {
            let zeros = usize::try_from(exponent.unsigned_abs()).ok()?.checked_sub(1)?;
            data::scaled(&format!("0.{}{}", "0".repeat(zeros.min(20)), digits.replace('.', "")), 6)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_dollars_converts_numbers_to_millionths() {
        let rows =
            [("0.123", 123_000), ("3", 3_000_000), ("1e-7", 0), ("2.5e-5", 25), ("0.0000005", 1), ("1e1", 10_000_000)];
        for (text, expected) in rows {
            let number: Number = serde_json::from_str(text).unwrap();
            assert_eq!(micro_dollars(&number), Some(expected), "{text}");
        }
    }

    #[test]
    fn parse_reports_the_field_when_its_value_is_invalid() {
        let rows = [
            (
                r#"{"instanceTypes":[{"name":"a","capacity":{"cpu":"x"},"offerings":[]}]}"#,
                "instanceTypes[0].capacity[cpu]",
            ),
            (
                r#"{"instanceTypes":[{"name":"a","capacity":{},"offerings":[{"zone":"z","capacityType":"spott","price":1}]}]}"#,
                "instanceTypes[0].offerings[0].capacityType",
            ),
            (
                r#"{"instanceTypes":[{"name":"a","capacity":{},"offerings":[{"zone":"z","capacityType":"spot","price":-1}]}]}"#,
                "instanceTypes[0].offerings[0].price",
            ),
            (
                r#"{"instanceTypes":[{"name":"a","capacity":{},"offerings":[]},{"name":"a","capacity":{},"offerings":[]}]}"#,
                "instanceTypes[1].name",
            ),
            (
                r#"{"instanceTypes":[{"name":"a","capacity":{},"offerings":[],"labels":{"k":1}}]}"#,
                "instanceTypes[0].labels.k",
            ),
        ];
        for (text, field) in rows {
            let problem = parse(text).expect_err(text);
            assert!(problem.contains(field), "{problem}");
        }
    }

    #[test]
    fn parse_treats_null_as_absent_and_reports_unknown_fields() {
        let text = r#"{"instanceTypes":[{"name":"a","capacity":{"cpu":4},"overhead":null,"labels":null,"colour":1,"offerings":[
            {"zone":"z","capacityType":"spot","price":1,"available":null,"reservationID":null,"availible":false}]}]}"#;
        let types = parse(text).unwrap();
        assert!(types[0].offerings[0].available);
        let strange = ["instanceTypes[].colour", "offerings[].availible"];
        assert_eq!(unknown_fields(text), strange.map(|it| format!("--catalogue: {it} is not a field and is ignored")));
    }
}
