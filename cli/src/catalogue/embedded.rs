//! Embedded instance types, zones and prices of a region, with the source of each.

use std::collections::BTreeSet;
use std::path::Path;

use cloud::InstanceTypeInfo;
use cloud::data::{self, Facts, OfferingBasis, RegionOfferings};
use cloud::types::OfferingSource;

use super::prices::PriceTable;
use super::spot;
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
    /// Builds the data of a region; prices come from the given files, else from embedded data.
    ///
    /// # Errors
    /// Returns an error if the region is unknown, or if a file cannot be read.
    pub(crate) fn new(region: &str, prices: Option<&Path>, spot_prices: Option<&Path>) -> Result<Self, Failure> {
        let RegionOfferings { basis, offerings } = offerings(region)?;
        let facts = data::facts().map_err(Failure::internal)?;
        let infos = data::instance_types().map_err(Failure::internal)?.values().cloned().collect();
        let zones = offerings.iter().map(|offering| offering.zone.clone()).collect();
        let table = PriceTable::find(prices, region, facts)?;
        let mut offering_source = OfferingSource::new(table.on_demand.clone());
        offering_source.add_spot_prices(match spot_prices {
            Some(path) => spot::read(path)?,
            None => spot::estimate(&offerings, &table.on_demand),
        });
        offering_source.set_offerings(offerings);
        Ok(Self {
            region: region.to_owned(),
            infos,
            facts,
            offering_source,
            zones,
            warnings: assumption(region, &basis).into_iter().chain(table.warnings(region)).collect(),
            source: format!("{region}: {}", table.source),
            spot_is_estimated: spot_prices.is_none(),
        })
    }
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
             status or the region labels of the nodes, or use --catalogue",
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
         {region}c; use --catalogue for real ones"
    ))
}
