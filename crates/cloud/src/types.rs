//! Conversion of EC2's instance types into those of the planner: capacity, allocatable resources, labels, and offerings with
//! prices.

mod capacity;
mod class;
mod compatibility;
mod labels;
mod memory;
mod offerings;
mod reserved;

use jiff::Timestamp;
use planner::{Catalogue, InstanceType, Requirements};

use crate::calls::InstanceTypeInfo;
use crate::data::Facts;
use crate::nodeclass::ResolvedImage;
use crate::settings::Settings;
use crate::unavailable_offerings::UnavailableOfferings;

pub use capacity::{allocatable, capacity};
pub use class::{ClassError, ClassSettings, Threshold, Zone};
pub use compatibility::{Incompatible, unfit};
pub use labels::{is_exotic, labels};
pub use memory::{BELIEVED, LearnedMemory, MemoryUpdate, image_set};
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
    pub market: &'a OfferingSource,
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
    Catalogue { name: class.name.clone(), types }
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
    let standing = unfit(info, class).map(Unavailable::Unfit).or_else(imageless);
    let quotes = source.market.quotes(info, class, source.shortages, standing.as_ref(), now);
    let (priced, unpriced): (Vec<&Quote>, Vec<&Quote>) = quotes.iter().partition(|quote| quote.price.is_some());
    let offerings = |quotes: Vec<&Quote>| quotes.into_iter().map(Quote::offering).collect();
    let kind = InstanceType {
        name: info.name.clone(),
        labels,
        capacity,
        allocatable,
        offerings: offerings(priced),
        unpriced: offerings(unpriced),
        ..InstanceType::default()
    };
    (kind, quotes)
}

/// Converts requirements into those of the planner; deprecated keys become the current ones.
#[must_use]
pub fn requirements(list: &[api::Requirement]) -> Requirements {
    let mut all = Requirements::default();
    for one in list {
        all.add(&requirement(one));
    }
    all
}

fn requirement(one: &api::Requirement) -> planner::Requirement {
    planner::Requirement {
        key: api::label::canonical(&one.key).to_owned(),
        operator: match one.operator {
            api::Operator::In => planner::Operator::In,
            api::Operator::NotIn => planner::Operator::NotIn,
            api::Operator::Exists => planner::Operator::Exists,
            api::Operator::DoesNotExist => planner::Operator::DoesNotExist,
            api::Operator::Gt => planner::Operator::Gt,
            api::Operator::Lt => planner::Operator::Lt,
            api::Operator::Gte => planner::Operator::Gte,
            api::Operator::Lte => planner::Operator::Lte,
        },
        values: one.values.clone(),
        min_values: one.min_values.and_then(|count| u32::try_from(count).ok()),
    }
}
