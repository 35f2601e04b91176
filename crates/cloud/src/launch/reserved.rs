//! Which reserved capacity a launch uses: one kind of reservation, and in each zone the one with most room (aws 4.1, 4.3).

use std::collections::BTreeMap;

use api::label;
use planner::{CapacityType, Offering};

use super::choice::Candidate;

/// What kind of reservation stands behind an offering. A launch uses one kind only: EC2 is asked for each in another way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReservationKind {
    /// On-demand capacity that is paid for.
    Default,
    /// A capacity block for ML.
    CapacityBlock,
    /// Capacity that its owner may call back.
    Interruptible,
}

const CAPACITY_BLOCK: &str = "capacity-block";
const INTERRUPTIBLE: &str = "interruptible-capacity-reservation";

impl ReservationKind {
    /// By the labels of an offering.
    pub(super) fn from_offering(offering: &Offering) -> Self {
        let says = |key: &str, value: &str| offering.labels.get(key).is_some_and(|found| found == value);
        if says(label::CAPACITY_RESERVATION_TYPE, CAPACITY_BLOCK) {
            Self::CapacityBlock
        } else if says(label::CAPACITY_RESERVATION_INTERRUPTIBLE, "true") {
            Self::Interruptible
        } else {
            Self::Default
        }
    }

    /// EC2's market type of a machine in it.
    pub(super) fn market_type(self) -> Option<&'static str> {
        match self {
            Self::Default => None,
            Self::CapacityBlock => Some(CAPACITY_BLOCK),
            Self::Interruptible => Some(INTERRUPTIBLE),
        }
    }

    /// EC2's DefaultTargetCapacityType, where it is not that of on-demand machines.
    pub(super) fn target_type(self) -> Option<&'static str> {
        match self {
            Self::Default => None,
            Self::CapacityBlock => Some(CAPACITY_BLOCK),
            Self::Interruptible => Some("reserved-capacity"),
        }
    }

    /// What a fleet's `reserved-capacity` may use.
    pub(super) fn fleet_option(self) -> Option<&'static str> {
        (self == Self::Interruptible).then_some(INTERRUPTIBLE)
    }
}

/// Leaves one kind of reservation, of capacity blocks one type, and of each type one offering a zone. Other offerings stay.
pub(super) fn narrow(candidates: &mut Vec<Candidate<'_>>) {
    let reserved = |offering: &&Offering| offering.capacity_type == CapacityType::Reserved;
    let all = candidates.iter().flat_map(|one| one.offerings.iter().map(move |offering| (one.kind, *offering)));
    let cheapest = all
        .filter(|(_, offering)| reserved(offering))
        .min_by_key(|(kind, offering)| (offering.price, ReservationKind::from_offering(offering), kind.name.as_str()));
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
        keep_roomiest(&mut candidate.offerings);
    }
    candidates.retain(|candidate| !candidate.offerings.is_empty());
}

/// Of the reserved offerings in a zone the one whose reservation has most room left.
fn keep_roomiest(offerings: &mut Vec<&Offering>) {
    let room = |offering: &Offering| offering.reservation.as_ref().map_or(0, |one| one.remaining);
    let id = |offering: &Offering| offering.reservation.as_ref().map(|one| one.id.clone());
    let mut best: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut held: BTreeMap<String, u32> = BTreeMap::new();
    for offering in offerings.iter().filter(|one| one.capacity_type == CapacityType::Reserved) {
        if held.get(&offering.zone).is_none_or(|most| room(offering) > *most) {
            held.insert(offering.zone.clone(), room(offering));
            best.insert(offering.zone.clone(), id(offering));
        }
    }
    offerings.retain(|one| one.capacity_type != CapacityType::Reserved || best.get(&one.zone) == Some(&id(one)));
}
