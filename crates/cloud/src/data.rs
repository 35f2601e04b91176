//! Facts about EC2 that Kerf cannot read from an API call. Kept as data files, which are parsed and validated at first use.
//!
//! The product uses `vpc-limits.csv`, `network-bandwidth.csv` and the on-demand prices. [`crate::fake::FakeCloud`] and the
//! command `kerf` use the captured instance types and zone offerings.

mod describe;
mod pricelist;
mod regions;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use thiserror::Error;

use crate::calls::InstanceTypeInfo;

pub use pricelist::{Currency, price_of};
pub use regions::{OfferingBasis, RegionOfferings, region_of_zone, region_offerings, regions, type_offerings};

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
    /// On-demand prices of Linux by region, for regions with other price levels, in millionths of the currency per hour: yuan
    /// in China, else dollars.
    pub regional: BTreeMap<&'static str, BTreeMap<String, i64>>,
    /// Prices of EBS volumes in us-east-1.
    pub volumes: VolumePrices,
}

/// Prices of EBS volumes by type.
pub type VolumePrices = BTreeMap<String, VolumePrice>;

/// Price of one type of EBS volume, in millionths of a dollar per month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumePrice {
    /// Price of a GiB.
    pub gib: i64,
    /// Price of an operation per second above `free_iops`.
    pub iops: i64,
    /// Operations per second that the price of the size includes.
    pub free_iops: u32,
    /// Price of a MiB per second above `free_throughput`.
    pub throughput: i64,
    /// Throughput in MiB per second that the price of the size includes.
    pub free_throughput: u32,
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

/// Region of the default on-demand prices.
pub const DEFAULT_PRICES: &str = "us-east-1";
/// On-demand prices by region. AWS GovCloud and China have their own price levels, and China its own currency.
const PRICES: [(&str, &str, &str); 4] = [
    (DEFAULT_PRICES, "on-demand-prices-us-east-1.csv", include_str!("../data/on-demand-prices-us-east-1.csv")),
    ("us-gov-east-1", "on-demand-prices-us-gov-east-1.csv", include_str!("../data/on-demand-prices-us-gov-east-1.csv")),
    ("us-gov-west-1", "on-demand-prices-us-gov-west-1.csv", include_str!("../data/on-demand-prices-us-gov-west-1.csv")),
    ("cn-north-1", "on-demand-prices-cn-north-1.csv", include_str!("../data/on-demand-prices-cn-north-1.csv")),
];

impl Facts {
    /// Returns the region whose embedded prices are the best known for a region: its own, of its partition, else
    /// [`DEFAULT_PRICES`].
    #[must_use]
    pub fn price_region(&self, region: &str) -> &'static str {
        let own = PRICES.iter().find(|(known, ..)| *known == region);
        let partition = || PRICES.iter().find(|(known, ..)| region.starts_with("cn-") && known.starts_with("cn-"));
        own.or_else(partition).map_or(DEFAULT_PRICES, |(known, ..)| known)
    }

    /// Returns the embedded on-demand prices of [`Self::price_region`].
    #[must_use]
    pub fn on_demand_in(&self, region: &str) -> &BTreeMap<String, i64> {
        self.regional.get(self.price_region(region)).unwrap_or(&self.on_demand)
    }
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
    for (region, file, text) in PRICES {
        let prices = load_prices(file, text)?;
        match region {
            DEFAULT_PRICES => facts.on_demand = prices,
            region => drop(facts.regional.insert(region, prices)),
        }
    }
    facts.volumes = load_volume_prices()?;
    Ok(facts)
}

fn load_volume_prices() -> Result<VolumePrices, DataError> {
    let mut prices = VolumePrices::new();
    for row in rows("ebs-prices-us-east-1.csv", include_str!("../data/ebs-prices-us-east-1.csv"), 6) {
        let row = row?;
        let price = VolumePrice {
            gib: row.price(1)?,
            iops: row.price(2)?,
            free_iops: row.number(3)?,
            throughput: row.price(4)?,
            free_throughput: row.number(5)?,
        };
        prices.insert(row.fields[0].to_owned(), price);
    }
    Ok(prices)
}

fn load_prices(file: &'static str, text: &str) -> Result<BTreeMap<String, i64>, DataError> {
    let mut prices = BTreeMap::new();
    for row in rows(file, text, 2) {
        let row = row?;
        let price = row.price(1)?;
        if price == 0 {
            return Err(row.error("the price is 0".to_owned()));
        }
        prices.insert(row.fields[0].to_owned(), price);
    }
    Ok(prices)
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

    /// Reads dollars into millionths of a dollar.
    fn price(&self, field: usize) -> Result<i64, DataError> {
        let text = self.fields[field];
        let price = scaled(text, 6).filter(|price| *price >= 0);
        price.ok_or_else(|| self.error(format!("{text:?} is not a price")))
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
    fn price_region_is_the_nearest_embedded_table() {
        let rows = [
            ("us-east-1", "us-east-1"),
            ("eu-west-1", "us-east-1"),
            ("us-gov-east-1", "us-gov-east-1"),
            ("us-gov-west-1", "us-gov-west-1"),
            ("cn-north-1", "cn-north-1"),
            ("cn-northwest-1", "cn-north-1"),
        ];
        let facts = facts().unwrap();
        for (region, expected) in rows {
            assert_eq!(facts.price_region(region), expected, "{region}");
            assert!(facts.on_demand_in(region).len() > 300);
        }
        let price = |region| facts.on_demand_in(region).get("c5.large").copied();
        assert_eq!((price("us-gov-east-1"), price("cn-northwest-1")), (Some(102_000), Some(739_000)));
    }

    #[test]
    fn rows_reports_file_and_row_when_a_row_is_damaged() {
        let error = rows("x.csv", "a,b\nok,1\nbad\n", 2).find_map(Result::err);
        assert_eq!(error.map(|error| (error.file, error.row)), Some(("x.csv", 3)));
    }
}
