//! Embedded instance types, zones and prices of a region, with the source of each.

use std::collections::BTreeSet;

use cloud::data::{self, Facts, OfferingBasis, RegionOfferings};
use cloud::types::OfferingSource;
use cloud::{InstanceTypeInfo, SpotPrice, TypeOffering};
use jiff::Timestamp;

use super::account::{self, AccountMarket};
use super::prices::PriceTable;
use super::{MarketSources, spot};
use crate::failure::Failure;

/// Embedded data of one region.
pub(crate) struct EmbeddedCatalogue {
    /// Name of the region.
    pub(crate) region: String,
    /// All instance types by name, including types that the region does not offer.
    pub(crate) infos: Vec<InstanceTypeInfo>,
    /// Facts about instance types that EC2's API does not return.
    pub(crate) facts: &'static Facts,
    /// Zones and prices.
    pub(crate) offering_source: OfferingSource,
    /// Zones of the region.
    pub(crate) zones: BTreeSet<String>,
    /// Source of the prices, for people.
    pub(crate) source: String,
    /// Warnings for the user.
    pub(crate) warnings: Vec<String>,
    /// `true` if spot prices are estimates.
    pub(crate) spot_is_estimated: bool,
}

impl EmbeddedCatalogue {
    /// Builds the data of a region at a time; offerings and prices come from the given sources, else from embedded data.
    ///
    /// # Errors
    /// Returns an error if the region is unknown, or if a source cannot be read.
    pub(crate) fn new(region: &str, sources: &MarketSources, now: Timestamp) -> Result<Self, Failure> {
        let facts = data::facts().map_err(Failure::internal)?;
        let infos: Vec<InstanceTypeInfo> =
            data::instance_types().map_err(Failure::internal)?.values().cloned().collect();
        let table = PriceTable::find(sources.prices.as_deref(), region, facts)?;
        let mut market = Market::of(region, sources.account, now)?;
        if let Some(path) = &sources.spot_prices {
            market.spot_prices = Some(spot::read(path)?);
        }
        let Market { offerings, spot_prices, warning } = market;
        let mut offering_source = OfferingSource::new(table.on_demand.clone());
        let spot_is_estimated = spot_prices.is_none();
        offering_source.add_spot_prices(spot_prices.unwrap_or_else(|| spot::estimate(&offerings, &table.on_demand)));
        let unknown = if sources.account { unknown_types(&offerings, &infos) } else { None };
        let warnings = warning.into_iter().chain(unknown).chain(table.warnings(region)).collect();
        let zones = offerings.iter().map(|offering| offering.zone.clone()).collect();
        offering_source.set_offerings(offerings);
        Ok(Self {
            region: region.to_owned(),
            infos,
            facts,
            offering_source,
            zones,
            warnings,
            source: format!("{region}: {}", table.source),
            spot_is_estimated,
        })
    }
}

/// Offerings of a region, with spot prices if they are known.
struct Market {
    offerings: Vec<TypeOffering>,
    spot_prices: Option<Vec<SpotPrice>>,
    warning: Option<String>,
}

impl Market {
    /// Returns the market of the user's account, else the embedded one.
    fn of(region: &str, account: bool, now: Timestamp) -> Result<Self, Failure> {
        if account {
            let AccountMarket { offerings, spot_prices } = account::read(region, now)?;
            return Ok(Self { offerings, spot_prices: Some(spot_prices), warning: None });
        }
        let RegionOfferings { basis, offerings } = offerings(region)?;
        Ok(Self { offerings, spot_prices: None, warning: assumption(region, &basis) })
    }
}

/// Returns a warning about offered types without embedded data, which a newer Kerf may have. Hosts of macOS are no nodes.
fn unknown_types(offerings: &[TypeOffering], infos: &[InstanceTypeInfo]) -> Option<String> {
    let known: BTreeSet<&str> = infos.iter().map(|info| info.name.as_str()).collect();
    let offered = offerings.iter().map(|offering| offering.instance_type.as_str());
    let unknown: BTreeSet<&str> = offered.filter(|name| !known.contains(name) && !name.starts_with("mac")).collect();
    let names: Vec<&str> = unknown.into_iter().collect();
    (!names.is_empty())
        .then(|| format!("instance types that this version does not know are left out: {}", names.join(", ")))
}

/// Returns the offerings of a region, known or assumed.
fn offerings(region: &str) -> Result<RegionOfferings, Failure> {
    let known = || -> Result<String, Failure> {
        Ok(data::regions().map_err(Failure::internal)?.into_iter().collect::<Vec<_>>().join(", "))
    };
    match data::region_offerings(region).map_err(Failure::internal)? {
        Some(found) => Ok(found),
        None => Err(Failure::usage(format!(
            "region {region}: not a region of AWS, known are {}; correct --region, the zones of the subnets in the class's \
             status or the region labels of the nodes, or use --account or --catalogue",
            known()?
        ))),
    }
}

/// Returns a warning about assumed offerings.
fn assumption(region: &str, basis: &OfferingBasis) -> Option<String> {
    let types = match basis {
        OfferingBasis::Known => return None,
        OfferingBasis::PriceList => "of its price list".to_owned(),
        OfferingBasis::Similar(other) => format!("of {other}"),
    };
    Some(format!(
        "region {region}: its offerings are unknown, assuming the instance types {types} in zones {region}a, {region}b and \
         {region}c; use --account or --catalogue for real ones"
    ))
}
