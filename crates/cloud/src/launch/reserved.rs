//! Choice of reserved capacity for a launch: one kind of reservation, and in each zone the one with the most available
//! instances.

use std::collections::BTreeMap;

use api::label;
use planner::{CapacityType, Offering};

use super::candidate::Candidate;

/// Kind of the reservation of an offering. A launch uses only one kind, because EC2 needs a different request for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReservationKind {
    /// An on-demand capacity reservation.
    Default,
    /// A capacity block for ML.
    CapacityBlock,
    /// An interruptible reservation, which its owner may reclaim.
    Interruptible,
}

const CAPACITY_BLOCK: &str = "capacity-block";
const INTERRUPTIBLE: &str = "interruptible-capacity-reservation";

impl ReservationKind {
    /// Returns the kind from the labels of an offering.
    pub(super) fn from_offering(offering: &Offering) -> Self {
        let has = |key: &str, value: &str| offering.labels.get(key).is_some_and(|found| found == value);
        if has(label::CAPACITY_RESERVATION_TYPE, CAPACITY_BLOCK) {
            Self::CapacityBlock
        } else if has(label::CAPACITY_RESERVATION_INTERRUPTIBLE, "true") {
            Self::Interruptible
        } else {
            Self::Default
        }
    }

    /// Returns EC2's market type of an instance in the reservation.
    pub(super) fn market_type(self) -> Option<&'static str> {
        match self {
            Self::Default => None,
            Self::CapacityBlock => Some(CAPACITY_BLOCK),
            Self::Interruptible => Some(INTERRUPTIBLE),
        }
    }

    /// Returns EC2's DefaultTargetCapacityType if it differs from that of on-demand instances.
    pub(super) fn target_type(self) -> Option<&'static str> {
        match self {
            Self::Default => None,
            Self::CapacityBlock => Some(CAPACITY_BLOCK),
            Self::Interruptible => Some("reserved-capacity"),
        }
    }

    /// Returns the kind of reservation that `reserved-capacity` of the fleet may use.
    pub(super) fn fleet_option(self) -> Option<&'static str> {
        (self == Self::Interruptible).then_some(INTERRUPTIBLE)
    }
}

/// Keeps one kind of reservation, one instance type for capacity blocks, and one reserved offering per type and zone. Offerings
/// that are not reserved remain.
pub(super) fn narrow(candidates: &mut Vec<Candidate<'_>>) {
    let reserved = |offering: &&Offering| offering.capacity_type == CapacityType::Reserved;
    let all = candidates.iter().flat_map(|one| one.offerings.iter().map(move |offering| (one.kind, *offering)));
    let cheapest = all.filter(|(_, offering)| reserved(offering)).min_by_key(|(kind, offering)| {
        (kind.cost(offering.price), ReservationKind::from_offering(offering), kind.name.as_str())
    });
    let Some((block_type, kind)) =
        cheapest.map(|(kind, offering)| (kind.name.clone(), ReservationKind::from_offering(offering)))
    else {
        return;
    };
    for candidate in candidates.iter_mut() {
        let right_type = kind != ReservationKind::CapacityBlock || candidate.kind.name == block_type;
        candidate
            .offerings
            .retain(|offering| !reserved(offering) || (right_type && ReservationKind::from_offering(offering) == kind));
        keep_largest(&mut candidate.offerings);
    }
    candidates.retain(|candidate| !candidate.offerings.is_empty());
}

/// Keeps only the reserved offering with the most available instances in each zone.
fn keep_largest(offerings: &mut Vec<&Offering>) {
    let remaining = |offering: &Offering| offering.reservation.as_ref().map_or(0, |one| one.remaining);
    let id = |offering: &Offering| offering.reservation.as_ref().map(|one| one.id.clone());
    let mut best: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut held: BTreeMap<String, u32> = BTreeMap::new();
    for offering in offerings.iter().filter(|one| one.capacity_type == CapacityType::Reserved) {
        if held.get(&offering.zone).is_none_or(|most| remaining(offering) > *most) {
            held.insert(offering.zone.clone(), remaining(offering));
            best.insert(offering.zone.clone(), id(offering));
        }
    }
    offerings.retain(|one| one.capacity_type != CapacityType::Reserved || best.get(&one.zone) == Some(&id(one)));
}
