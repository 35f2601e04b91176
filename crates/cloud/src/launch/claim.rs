//! Conversion of an instance into fields of its NodeClaim.

use std::collections::BTreeMap;

use api::{Quantity, label, quantity};
use planner::{CapacityType, InstanceType, MicroDollars, Requirements};

use crate::calls::Instance;
use crate::settings::Settings;
use crate::types::EFA;

/// The fields of a NodeClaim that its instance determines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimParts {
    /// Provider id, `aws:///ZONE/INSTANCE-ID`.
    pub provider_id: String,
    /// Image id.
    pub image_id: String,
    /// Labels of the instance; the NodeClaim's own labels take precedence.
    pub labels: BTreeMap<String, String>,
    /// Capacity; empty if the instance type is unknown.
    pub capacity: BTreeMap<String, Quantity>,
    /// Allocatable resources; empty if the instance type is unknown.
    pub allocatable: BTreeMap<String, Quantity>,
    /// Price per hour of the instance's offering; `None` if the offering is unknown.
    pub price: Option<MicroDollars>,
}

impl ClaimParts {
    /// Returns the same fields without EFA.
    ///
    /// An instance has no EFA interfaces if the NodeClaim requests none and its EC2NodeClass lists none.
    #[must_use]
    pub fn without_efa(mut self) -> Self {
        self.capacity.remove(EFA);
        self.allocatable.remove(EFA);
        self
    }
}

/// Describes an instance. `kind` is its instance type under its EC2NodeClass, if the catalogue still has it. The launch followed
/// the `requirements` of the NodeClaim.
#[must_use]
pub fn describe(
    instance: &Instance,
    kind: Option<&InstanceType>,
    requirements: &Requirements,
    settings: &Settings,
) -> ClaimParts {
    let mut labels = required_labels(requirements);
    for (key, values) in kind.into_iter().flat_map(|kind| &kind.labels) {
        if let Some(value) = chosen_value(key, values, requirements) {
            labels.insert(key.clone(), value.to_owned());
        }
    }
    if let Some(partition) = instance.placement_partition {
        labels.insert(label::PLACEMENT_GROUP_PARTITION.to_owned(), partition.to_string());
    }
    let reservation = reservation(instance, settings);
    let capacity_type = match (instance.spot, reservation) {
        (true, _) => CapacityType::Spot,
        (false, Some(_)) => CapacityType::Reserved,
        (false, None) => CapacityType::OnDemand,
    };
    let offering = kind.into_iter().flat_map(|kind| &kind.offerings).find(|offering| {
        let reserved = offering.reservation.as_ref().map(|one| one.id.as_str());
        offering.zone == instance.zone && offering.capacity_type == capacity_type && reserved == reservation
    });
    labels.extend(offering.into_iter().flat_map(|offering| offering.labels.clone()));
    let mut set = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
    set(label::INSTANCE_TYPE, &instance.instance_type);
    set(label::ZONE, &instance.zone);
    set(label::REGION, &settings.region);
    set(label::CAPACITY_TYPE, capacity_type.as_str());
    if let Some(id) = reservation {
        set(label::CAPACITY_RESERVATION_ID, id);
    }
    for key in [label::NODEPOOL, label::EC2_NODE_CLASS] {
        if let Some(value) = instance.tags.get(key) {
            set(key, value);
        }
    }
    ClaimParts {
        provider_id: instance.provider_id(),
        image_id: instance.image_id.clone(),
        labels,
        capacity: kind.map(|kind| quantity::list(kind.capacity.iter())).unwrap_or_default(),
        allocatable: kind.map(|kind| quantity::list(kind.allocatable.iter())).unwrap_or_default(),
        price: offering.map(|offering| offering.price),
    }
}

/// Returns the labels of the NodeClaim's owner that its requirements determine: those with a single value. The instance determines
/// the well-known ones.
fn required_labels(requirements: &Requirements) -> BTreeMap<String, String> {
    let own = requirements.iter().filter(|(key, _)| !label::is_well_known(key) && !label::is_restricted(key));
    own.filter_map(|(key, set)| Some((key.to_owned(), set.single()?.to_owned()))).collect()
}

/// Returns the value of a label on an instance whose type may have these values. A launch uses the first tenancy and the first
/// partition that the requirements allow. Without a requirement on the partition EC2 selects one, which the registration reads.
fn chosen_value<'a>(key: &str, values: &'a [String], requirements: &Requirements) -> Option<&'a str> {
    let required = requirements.get(key);
    let allowed = || values.iter().find(|value| required.is_none_or(|set| set.allows(Some(value.as_str()))));
    let chosen = match values {
        [value] => Some(value),
        _ if key == label::INSTANCE_TENANCY => allowed(),
        _ if key == label::PLACEMENT_GROUP_PARTITION && required.is_none() => return Some(label::PARTITION_NOT_READ),
        _ if key == label::PLACEMENT_GROUP_PARTITION => allowed(),
        _ => None,
    };
    chosen.map(String::as_str)
}

/// Returns the reservation that the launch targeted. An instance that EC2 matched to an open reservation by itself counts as
/// on-demand.
fn reservation<'i>(instance: &'i Instance, settings: &Settings) -> Option<&'i str> {
    let targeted = instance.capacity_reservation_preference.as_deref() == Some("capacity-reservations-only");
    instance.capacity_reservation_id.as_deref().filter(|_| targeted && settings.reserved_capacity)
}

/// Returns the instance id at the end of a provider id, whose other parts are ignored; `None` if it is not an EC2 provider id.
#[must_use]
pub fn instance_id(provider_id: &str) -> Option<&str> {
    let path = provider_id.strip_prefix("aws:///")?;
    let (_, id) = path.rsplit_once('/')?;
    id.starts_with("i-").then_some(id)
}
