//! Embedded instance types, zones and prices of a region, with the source of each.

use std::collections::BTreeSet;
use std::path::Path;

use cloud::data::{self, Facts};
use cloud::types::OfferingSource;
use cloud::{InstanceTypeInfo, TypeOffering};

use super::prices::PriceTable;
use super::{REGIONS, spot};
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
        known(region)?;
        let facts = data::facts().map_err(Failure::internal)?;
        let infos = data::instance_types().map_err(Failure::internal)?.values().cloned().collect();
        let offerings: Vec<TypeOffering> = data::type_offerings(region).map_err(Failure::internal)?;
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
            warnings: table.warning(region).into_iter().collect(),
            source: format!("{region}: {}", table.source),
            spot_is_estimated: spot_prices.is_none(),
        })
    }
}

fn known(region: &str) -> Result<(), Failure> {
    if REGIONS.contains(&region) {
        return Ok(());
    }
    let known = REGIONS.join(", ");
    Err(Failure::usage(format!(
        "--region {region}: unknown zones, known are those of {known}; set --region to one of them"
    )))
}
