//! Instance types that each region offers, by zone. The table has the commercial regions of its date. For every other region the
//! offerings are assumed, from its price list or from a similar region.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::sync::OnceLock;

use flate2::read::GzDecoder;

use super::{DataError, facts, rows};
use crate::calls::TypeOffering;

const FILE: &str = "zone-offerings.csv.gz";
/// Names of the zones of a region that the table does not have.
const ASSUMED_ZONES: [&str; 3] = ["a", "b", "c"];
/// First parts of region names, by partition and continent.
const AREAS: [&str; 16] = [
    "af", "ap", "ca", "cn", "eu", "eu-isoe", "eusc-de", "il", "me", "mx", "sa", "us", "us-gov", "us-iso", "us-isob",
    "us-isof",
];
/// Second parts of region names.
const DIRECTIONS: [&str; 9] =
    ["central", "east", "north", "northeast", "northwest", "south", "southeast", "southwest", "west"];

/// Origin of the offerings of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OfferingBasis {
    /// The table has the region.
    Known,
    /// The instance types are those of the region's price list, in assumed zones.
    PriceList,
    /// The instance types are those of this similar region, in assumed zones.
    Similar(String),
}

/// Instance types that each zone of a region offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionOfferings {
    /// Origin of the offerings.
    pub basis: OfferingBasis,
    /// Instance types by zone.
    pub offerings: Vec<TypeOffering>,
}

/// Returns the regions of the table.
///
/// # Errors
/// When the data file is damaged.
pub fn regions() -> Result<BTreeSet<&'static str>, DataError> {
    let region = |line: &'static str| line.split_once(',').map(|(region, _)| region);
    Ok(table()?.lines().skip(1).filter_map(region).collect())
}

/// Returns the instance types that each zone of a region of the table offers.
///
/// # Errors
/// When the data file is damaged, or does not have the region.
pub fn type_offerings(region: &str) -> Result<Vec<TypeOffering>, DataError> {
    let mut offerings = Vec::new();
    for row in rows(FILE, table()?, 3) {
        let row = row?;
        if row.fields[0] == region {
            offerings.extend(in_zones(region, row.fields[1], row.fields[2].split("").filter(|zone| !zone.is_empty())));
        }
    }
    if offerings.is_empty() {
        let known = regions()?.into_iter().collect::<Vec<_>>().join(", ");
        let problem = format!("no zone offerings for region {region:?}, only for {known}");
        return Err(DataError { file: FILE, row: 0, problem });
    }
    Ok(offerings)
}

/// Returns the offerings of any region of AWS, known or assumed; `None` if the name is not that of a region.
///
/// # Errors
/// When a data file is damaged.
pub fn region_offerings(region: &str) -> Result<Option<RegionOfferings>, DataError> {
    if regions()?.contains(region) {
        let offerings = type_offerings(region)?;
        return Ok(Some(RegionOfferings { basis: OfferingBasis::Known, offerings }));
    }
    if !is_region(region) {
        return Ok(None);
    }
    if let Some(prices) = facts()?.regional.get(region) {
        let offerings = prices.keys().flat_map(|name| in_zones(region, name, ASSUMED_ZONES)).collect();
        return Ok(Some(RegionOfferings { basis: OfferingBasis::PriceList, offerings }));
    }
    let similar = similar(region)?;
    let names: BTreeSet<String> =
        type_offerings(&similar)?.into_iter().map(|offering| offering.instance_type).collect();
    let offerings = names.iter().flat_map(|name| in_zones(region, name, ASSUMED_ZONES)).collect();
    Ok(Some(RegionOfferings { basis: OfferingBasis::Similar(similar), offerings }))
}

fn in_zones<'z>(
    region: &str,
    instance_type: &str,
    zones: impl IntoIterator<Item = &'z str>,
) -> impl Iterator<Item = TypeOffering> {
    let offering =
        |zone: &str| TypeOffering { instance_type: instance_type.to_owned(), zone: format!("{region}{zone}") };
    zones.into_iter().map(offering).collect::<Vec<_>>().into_iter()
}

/// Reports whether the name has the form of a region's name: area, direction and number.
fn is_region(name: &str) -> bool {
    let Some((front, number)) = name.rsplit_once('-') else { return false };
    let Some((area, direction)) = front.rsplit_once('-') else { return false };
    let numbered = number.len() == 1 && number.bytes().all(|byte| byte.is_ascii_digit());
    numbered && DIRECTIONS.contains(&direction) && AREAS.contains(&area)
}

/// Returns the region of the table with the fewest types that has the longest common beginning with this one. A new region
/// starts with few types.
fn similar(region: &str) -> Result<String, DataError> {
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows(FILE, table()?, 3) {
        *types.entry(row?.fields[0]).or_default() += 1;
    }
    let common = |other: &str| region.split('-').zip(other.split('-')).take_while(|(one, other)| one == other).count();
    let best = types.iter().min_by_key(|(other, count)| (std::cmp::Reverse(common(other)), **count, **other));
    let missing = || DataError { file: FILE, row: 0, problem: "the table is empty".to_owned() };
    best.map(|(other, _)| (*other).to_owned()).ok_or_else(missing)
}

/// Returns the text of the table.
fn table() -> Result<&'static str, DataError> {
    static TABLE: OnceLock<Result<String, DataError>> = OnceLock::new();
    let unpack = || {
        let packed: &[u8] = include_bytes!("../../data/zone-offerings.csv.gz");
        let mut text = String::new();
        let damaged = |error: std::io::Error| DataError { file: FILE, row: 0, problem: error.to_string() };
        GzDecoder::new(packed).read_to_string(&mut text).map_err(damaged)?;
        Ok(text)
    };
    TABLE.get_or_init(unpack).as_ref().map(String::as_str).map_err(Clone::clone)
}

/// Returns the region of a zone, also of a local or wavelength zone, such as `us-west-2` of `us-west-2-lax-1a`. Returns an empty
/// text for a name that contains no region.
#[must_use]
pub fn region_of_zone(zone: &str) -> &str {
    let number = zone.as_bytes().windows(2).position(|pair| pair[0] == b'-' && pair[1].is_ascii_digit());
    let Some(number) = number else { return "" };
    let digits = zone[number + 1..].bytes().take_while(u8::is_ascii_digit).count();
    &zone[..=number + digits]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_of_zone_ends_with_the_first_number() {
        let rows = [
            ("us-west-2a", "us-west-2"),
            ("us-gov-west-1b", "us-gov-west-1"),
            ("us-west-2-lax-1a", "us-west-2"),
            ("us-east-1-wl1-bos-wlz-1", "us-east-1"),
            ("mars", ""),
        ];
        for (zone, region) in rows {
            assert_eq!(region_of_zone(zone), region, "{zone}");
        }
    }

    #[test]
    fn region_offerings_are_known_or_assumed_for_every_region() {
        let basis = |region: &str| region_offerings(region).unwrap().map(|it| it.basis);
        let similar = |region: &str| Some(OfferingBasis::Similar(region.to_owned()));
        let rows = [
            ("us-east-1", Some(OfferingBasis::Known)),
            ("eu-central-1", Some(OfferingBasis::Known)),
            ("us-gov-west-1", Some(OfferingBasis::PriceList)),
            ("cn-north-1", Some(OfferingBasis::PriceList)),
            ("ap-southeast-7", similar("ap-southeast-4")),
            ("mx-central-1", similar("me-south-1")),
            ("us-iso-east-1", similar("us-west-1")),
            ("mars-east-1", None),
            ("us-est-1", None),
            ("us-east-1a", None),
            ("", None),
        ];
        for (region, expected) in rows {
            assert_eq!(basis(region), expected, "{region}");
        }
        assert_eq!(regions().unwrap().len(), 30);
    }

    #[test]
    fn type_offerings_name_zones_of_the_region() {
        for region in regions().unwrap() {
            let offerings = type_offerings(region).unwrap();
            assert!(offerings.len() > 700, "{region}: {}", offerings.len());
            assert!(offerings.iter().all(|it| it.zone.strip_prefix(region).is_some_and(|zone| zone.len() == 1)));
        }
        let zones = |region: &str| -> BTreeSet<String> {
            region_offerings(region).unwrap().unwrap().offerings.into_iter().map(|it| it.zone).collect()
        };
        assert_eq!(zones("ap-northeast-1"), ["a", "c", "d"].map(|zone| format!("ap-northeast-1{zone}")).into());
        assert_eq!(zones("cn-northwest-1"), ["a", "b", "c"].map(|zone| format!("cn-northwest-1{zone}")).into());
        let error = type_offerings("us-gov-west-1").unwrap_err().to_string();
        assert!(error.contains("no zone offerings for region \"us-gov-west-1\""), "{error}");
    }
}
