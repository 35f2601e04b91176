//! Facts about EC2 that Kerf cannot read from an API call. Kept as data files, which are parsed and validated at first use.
//!
//! The product uses `vpc-limits.csv`, `network-bandwidth.csv` and `on-demand-prices-us-east-1.csv`. [`crate::fake::FakeCloud`]
//! uses the captured instance types and zone offerings.

mod describe;
mod pricelist;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use thiserror::Error;

use crate::calls::{InstanceTypeInfo, TypeOffering};

pub use pricelist::{Currency, price_of};

/// An unusable data file of the crate. `row` counts from 1 and includes the heading; in JSON it is the position in the list.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("data file {file}, row {row}: {problem}; restore the file from the release that it came with")]
pub struct DataError {
    /// Name of the file.
    pub file: &'static str,
    /// Row in the file.
    pub row: usize,
    /// Description of the error.
    pub problem: String,
}

/// Facts of instance types that DescribeInstanceTypes does not return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Branch network interfaces of types that support trunking (resource `vpc.amazonaws.com/pod-eni`).
    pub branch_interfaces: BTreeMap<String, u32>,
    /// IPv4 addresses per network interface, for the types that the VPC resource controller supports (resource
    /// `vpc.amazonaws.com/PrivateIPv4Address` of Windows).
    pub ipv4_per_interface: BTreeMap<String, u32>,
    /// Network bandwidth in Mbit/s.
    pub network_mbps: BTreeMap<String, u64>,
    /// On-demand price of Linux in us-east-1, in millionths of a dollar per hour.
    pub on_demand: BTreeMap<String, i64>,
}

/// Returns the facts that the product needs.
///
/// # Errors
/// When a data file is damaged.
pub fn facts() -> Result<&'static Facts, DataError> {
    static FACTS: OnceLock<Result<Facts, DataError>> = OnceLock::new();
    FACTS.get_or_init(load_facts).as_ref().map_err(Clone::clone)
}

/// Returns the captured answer of DescribeInstanceTypes by name. Contains only hvm types for x86_64 and arm64.
///
/// # Errors
/// When the data file is damaged.
pub fn instance_types() -> Result<&'static BTreeMap<String, InstanceTypeInfo>, DataError> {
    static TYPES: OnceLock<Result<BTreeMap<String, InstanceTypeInfo>, DataError>> = OnceLock::new();
    TYPES.get_or_init(load_types).as_ref().map_err(Clone::clone)
}

/// Returns the captured instance types that each zone of a region offers.
///
/// # Errors
/// When the data file is damaged, or the region has none.
pub fn type_offerings(region: &str) -> Result<Vec<TypeOffering>, DataError> {
    let (file, text) = match region {
        "us-east-1" => ("zone-offerings-us-east-1.csv", include_str!("../data/zone-offerings-us-east-1.csv")),
        "us-west-2" => ("zone-offerings-us-west-2.csv", include_str!("../data/zone-offerings-us-west-2.csv")),
        "eu-west-2" => ("zone-offerings-eu-west-2.csv", include_str!("../data/zone-offerings-eu-west-2.csv")),
        other => {
            let problem = format!("no zone offerings for region {other:?}, only us-east-1, us-west-2 and eu-west-2");
            return Err(DataError { file: "zone-offerings", row: 0, problem });
        }
    };
    let mut offerings = Vec::new();
    for row in rows(file, text, 2) {
        let row = row?;
        for zone in row.fields[1].split(' ') {
            if !zone.starts_with(region) {
                return Err(row.error(format!("zone {zone:?} is not in {region}")));
            }
            offerings.push(TypeOffering { instance_type: row.fields[0].to_owned(), zone: zone.to_owned() });
        }
    }
    Ok(offerings)
}

fn load_facts() -> Result<Facts, DataError> {
    let mut facts = Facts::default();
    for row in rows("vpc-limits.csv", include_str!("../data/vpc-limits.csv"), 7) {
        let row = row?;
        facts.ipv4_per_interface.insert(row.fields[0].to_owned(), row.number(2)?);
        if row.fields[3] == "true" {
            facts.branch_interfaces.insert(row.fields[0].to_owned(), row.number(4)?);
        }
    }
    for row in rows("network-bandwidth.csv", include_str!("../data/network-bandwidth.csv"), 2) {
        let row = row?;
        facts.network_mbps.insert(row.fields[0].to_owned(), row.number(1)?);
    }
    let file = "on-demand-prices-us-east-1.csv";
    for row in rows(file, include_str!("../data/on-demand-prices-us-east-1.csv"), 2) {
        let row = row?;
        let price = scaled(row.fields[1], 6).filter(|price| *price > 0);
        let price = price.ok_or_else(|| row.error(format!("{:?} is not a price", row.fields[1])))?;
        facts.on_demand.insert(row.fields[0].to_owned(), price);
    }
    Ok(facts)
}

fn load_types() -> Result<BTreeMap<String, InstanceTypeInfo>, DataError> {
    const FILE: &str = "describe-instance-types.json.gz";
    let damaged = |problem: String| DataError { file: FILE, row: 0, problem };
    let packed: &[u8] = include_bytes!("../data/describe-instance-types.json.gz");
    let mut json = String::new();
    GzDecoder::new(packed).read_to_string(&mut json).map_err(|error| damaged(error.to_string()))?;
    let types =
        describe::parse(&json).map_err(|error| DataError { file: FILE, row: error.row, problem: error.problem })?;
    Ok(types.into_iter().map(|info| (info.name.clone(), info)).collect())
}

/// One line of a table.
struct Row<'a> {
    file: &'static str,
    row: usize,
    fields: Vec<&'a str>,
}

impl Row<'_> {
    fn error(&self, problem: String) -> DataError {
        DataError { file: self.file, row: self.row, problem }
    }

    fn number<N: std::str::FromStr>(&self, field: usize) -> Result<N, DataError> {
        let text = self.fields[field];
        text.parse().map_err(|_| self.error(format!("{text:?} is not a number")))
    }
}

/// Returns the lines after the heading, each with exactly `width` fields.
fn rows<'a>(file: &'static str, text: &'a str, width: usize) -> impl Iterator<Item = Result<Row<'a>, DataError>> {
    text.lines().enumerate().skip(1).map(move |(index, line)| {
        let row = Row { file, row: index + 1, fields: line.split(',').collect() };
        if row.fields.len() != width || row.fields[0].is_empty() {
            return Err(row.error(format!("expected {width} fields in {line:?}")));
        }
        Ok(row)
    })
}

/// Converts a decimal text into an integer: the value times ten to the power of `digits`, rounded half up. Returns `None` if
/// the text is not a plain decimal.
///
/// The conversion avoids floats, because prices and clock speeds take part in decisions.
#[must_use]
pub fn scaled(text: &str, digits: usize) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(whole) || !plain(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let kept: String = fraction.chars().chain(std::iter::repeat('0')).take(digits).collect();
    let value: i64 = format!("0{whole}{kept}").parse().ok()?;
    let up = fraction.as_bytes().get(digits).is_some_and(|digit| *digit >= b'5');
    value.checked_add(i64::from(up))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_converts_decimal_text_to_integers() {
        let rows = [
            ("0.204", 6, Some(204_000)),
            ("12", 6, Some(12_000_000)),
            ("0.0000005", 6, Some(1)),
            ("0.0000004", 6, Some(0)),
            ("2.3", 3, Some(2300)),
            (".5", 3, Some(500)),
            ("", 6, None),
            (".", 6, None),
            ("-1", 6, None),
            ("1e3", 6, None),
        ];
        for (text, digits, expected) in rows {
            assert_eq!(scaled(text, digits), expected, "{text:?}");
        }
    }

    #[test]
    fn rows_reports_file_and_row_when_a_row_is_damaged() {
        let error = rows("x.csv", "a,b\nok,1\nbad\n", 2).find_map(Result::err);
        assert_eq!(error.map(|error| (error.file, error.row)), Some(("x.csv", 3)));
    }
}
