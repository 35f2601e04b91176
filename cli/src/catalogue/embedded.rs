//! What EC2 sells in a region as far as the program knows by itself: types, zones and prices, with a word on where each
//! comes from.

use std::collections::BTreeSet;
use std::path::Path;

use cloud::data::{self, Facts};
use cloud::types::OfferingSource;
use cloud::{InstanceTypeInfo, TypeOffering};

use super::{REGIONS, spot};
use crate::failure::Failure;
use crate::prices::table::Table;

/// One region as the program knows it.
pub(crate) struct EmbeddedCatalogue {
    /// The region.
    pub(crate) region: String,
    /// Every instance type, also those that the region does not sell, by name.
    pub(crate) infos: Vec<InstanceTypeInfo>,
    /// What EC2 does not tell.
    pub(crate) facts: &'static Facts,
    /// Zones and prices.
    pub(crate) market: OfferingSource,
    /// The region's zones.
    pub(crate) zones: BTreeSet<String>,
    /// Where prices come from, for people.
    pub(crate) source: String,
    /// What deserves a word.
    pub(crate) warnings: Vec<String>,
    /// Whether spot prices are a guess.
    pub(crate) spot_is_estimated: bool,
}

impl EmbeddedCatalogue {
    /// The region with its prices from these files, where they are given.
    ///
    /// # Errors
    /// When the region is not known, or a file cannot be read.
    pub(crate) fn new(region: &str, prices: Option<&Path>, spot_prices: Option<&Path>) -> Result<Self, Failure> {
        known(region)?;
        let facts = data::facts().map_err(Failure::internal)?;
        let infos = data::instance_types().map_err(Failure::internal)?.values().cloned().collect();
        let offerings: Vec<TypeOffering> = data::type_offerings(region).map_err(Failure::internal)?;
        let zones = offerings.iter().map(|offering| offering.zone.clone()).collect();
        let table = Table::find(prices, region, facts)?;
        let mut market = OfferingSource::new(table.on_demand.clone());
        market.add_spot_prices(match spot_prices {
            Some(path) => spot::read(path)?,
            None => spot::estimate(&offerings, &table.on_demand),
        });
        market.set_offerings(offerings);
        Ok(Self {
            region: region.to_owned(),
            infos,
            facts,
            market,
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
