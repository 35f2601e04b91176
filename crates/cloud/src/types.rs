//! Conversion of EC2's instance types into those of the planner: capacity, allocatable resources, labels, and offerings with
//! prices.

mod capacity;
mod class;
mod compatibility;
mod labels;
mod measured;
mod measured_bounds;
mod node_extras;
mod node_reading;
mod offerings;
pub mod prices;
mod reserved;
mod storage;

use jiff::Timestamp;
use planner::{Catalogue, InstanceType};

use crate::calls::InstanceTypeInfo;
use crate::data::Facts;
use crate::nodeclass::ResolvedImage;
use crate::settings::Settings;
use crate::unavailable_offerings::UnavailableOfferings;

pub use capacity::{EFA, allocatable, capacity};
pub use class::{ClassError, ClassSettings, Threshold};
pub use compatibility::{Incompatible, unfit};
pub use labels::labels;
pub use measured::{BELIEVED, Measured, MeasurementUpdate, Measurements, NodeReading, NodeSettings, image_set};
pub use node_reading::readings;
pub use offerings::{OfferingSource, Quote, Unavailable};
pub use reserved::{add_placement, add_reservations};

/// The inputs of an EC2NodeClass's catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Instance types of the region from EC2.
    pub infos: &'a [InstanceTypeInfo],
    /// Facts from the data files.
    pub facts: &'a Facts,
    /// Prices and zones.
    pub offerings: &'a OfferingSource,
    /// Unavailable offerings.
    pub shortages: &'a UnavailableOfferings,
    /// Images of the EC2NodeClass; without images every offering is unavailable.
    pub images: &'a [ResolvedImage],
}

/// Returns the catalogue of one EC2NodeClass. Types without image, capacity or price remain in the catalogue as unavailable, so
/// that reports can explain their exclusion.
#[must_use]
pub fn catalogue(source: &Source<'_>, class: &ClassSettings, settings: &Settings, now: Timestamp) -> Catalogue {
    let mut types: Vec<InstanceType> =
        source.infos.iter().map(|info| instance_type(info, source, class, settings, now)).collect();
    types.sort_by(|a, b| a.name.cmp(&b.name));
    let shifted = class.zones.iter().filter(|(_, zone)| source.shortages.is_shifted(&zone.id, now));
    Catalogue {
        name: class.name.clone(),
        types,
        shifted_zones: shifted.map(|(name, _)| name.clone()).collect(),
        node_extras: node_extras::cost(
            class,
            &source.facts.volumes,
            source.offerings.prices().level(&source.facts.on_demand),
        ),
    }
}

/// Returns one instance type under one EC2NodeClass.
#[must_use]
pub fn instance_type(
    info: &InstanceTypeInfo,
    source: &Source<'_>,
    class: &ClassSettings,
    settings: &Settings,
    now: Timestamp,
) -> InstanceType {
    listing(info, source, class, settings, now).0
}

/// Returns an instance type as [`instance_type`], with the reasons that make each offering unavailable.
#[must_use]
pub fn listing(
    info: &InstanceTypeInfo,
    source: &Source<'_>,
    class: &ClassSettings,
    settings: &Settings,
    now: Timestamp,
) -> (InstanceType, Vec<Quote>) {
    let mut labels = labels(info, source.facts, settings);
    labels.extend(class.system_labels(info));
    let (capacity, allocatable) = capacity::sizes(info, source.facts, class, settings);
    let imageless = || (!source.images.iter().any(|image| image.fits(&labels))).then_some(Unavailable::NoImage);
    let common = unfit(info, class).map(Unavailable::Unfit).or_else(imageless);
    let quotes = source.offerings.quotes(info, class, source.shortages, common.as_ref(), now);
    let (priced, unpriced): (Vec<&Quote>, Vec<&Quote>) = quotes.iter().partition(|quote| quote.price.is_some());
    let offerings = |quotes: Vec<&Quote>| quotes.into_iter().map(Quote::offering).collect();
    let kind = InstanceType {
        name: info.name.clone(),
        labels,
        capacity,
        allocatable,
        offerings: offerings(priced),
        unpriced: offerings(unpriced),
        attach_limits: storage::attach_limits(info, class),
        ..InstanceType::default()
    };
    (kind, quotes)
}
