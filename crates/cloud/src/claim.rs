//! From an instance to what its NodeClaim says of it (aws 4.8).

use std::collections::BTreeMap;

use api::{Quantity, label, quantity};
use planner::{CapacityType, InstanceType, Resources};

use crate::calls::Instance;
use crate::launch::EFA;
use crate::settings::Settings;

/// The parts of a NodeClaim that its instance decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimParts {
    /// `aws:///ZONE/INSTANCE-ID`.
    pub provider_id: String,
    /// The image.
    pub image_id: String,
    /// Labels of the machine; the claim's own win over them.
    pub labels: BTreeMap<String, String>,
    /// What the machine has; empty when its type is unknown.
    pub capacity: BTreeMap<String, Quantity>,
    /// What pods may request of it; empty when its type is unknown.
    pub allocatable: BTreeMap<String, Quantity>,
}

impl ClaimParts {
    /// The same without EFA: for machines that got no interfaces for it, because nobody asked for any and their class lists
    /// none (aws 10.2, case 21).
    #[must_use]
    pub fn without_efa(mut self) -> Self {
        self.capacity.remove(EFA);
        self.allocatable.remove(EFA);
        self
    }
}

/// Describes an instance. `kind` is its type under its class, where the catalogue still has it.
#[must_use]
pub fn describe(instance: &Instance, kind: Option<&InstanceType>, settings: &Settings) -> ClaimParts {
    let mut labels = BTreeMap::new();
    for (key, values) in kind.into_iter().flat_map(|kind| &kind.labels) {
        let known = match values.as_slice() {
            [value] => Some(value),
            // Shared unless the claim asks for another, and then the claim's own label wins.
            several if key == label::INSTANCE_TENANCY => several.first(),
            _ => None,
        };
        if let Some(value) = known {
            labels.insert(key.clone(), value.clone());
        }
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
        capacity: kind.map(|kind| quantities(&kind.capacity)).unwrap_or_default(),
        allocatable: kind.map(|kind| quantities(&kind.allocatable)).unwrap_or_default(),
    }
}

/// The reservation that the instance was bought from. One that EC2 counted against a reservation by itself is on-demand.
fn reservation<'i>(instance: &'i Instance, settings: &Settings) -> Option<&'i str> {
    let bought = instance.capacity_reservation_preference.as_deref() == Some("capacity-reservations-only");
    instance.capacity_reservation_id.as_deref().filter(|_| bought && settings.reserved_capacity)
}

fn quantities(resources: &Resources) -> BTreeMap<String, Quantity> {
    resources.iter().map(|(name, amount)| (name.to_owned(), Quantity(quantity::text(name, amount)))).collect()
}

/// The instance id at the end of a provider id, whatever else it says; `None` when it is not EC2's.
#[must_use]
pub fn instance_id(provider_id: &str) -> Option<&str> {
    let path = provider_id.strip_prefix("aws:///")?;
    let (_, id) = path.rsplit_once('/')?;
    id.starts_with("i-").then_some(id)
}
