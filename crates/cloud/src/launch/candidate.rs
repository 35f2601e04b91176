//! Candidates of a launch, and the reasons to drop some of them while others remain.

use api::label;
use planner::{CapacityType, InstanceType, MicroDollars, Offering};

use super::LaunchOffer;
use crate::types::is_exotic;

/// An instance type that the NodeClaim may launch, with its compatible available offerings.
pub(super) struct Candidate<'a> {
    pub(super) kind: &'a InstanceType,
    pub(super) offerings: Vec<&'a Offering>,
}

impl<'a> Candidate<'a> {
    /// Returns the lowest price, of one capacity type or of all.
    pub(super) fn cheapest(&self, capacity_type: Option<CapacityType>) -> Option<MicroDollars> {
        let wanted = |offering: &&&Offering| capacity_type.is_none_or(|wanted| offering.capacity_type == wanted);
        self.offerings.iter().filter(wanted).map(|offering| offering.price).min()
    }

    /// Returns the values of one label that the candidate can still have.
    pub(super) fn values(&self, key: &str) -> Vec<&'a str> {
        match key {
            label::ZONE => self.offerings.iter().map(|offering| offering.zone.as_str()).collect(),
            label::CAPACITY_TYPE => self.offerings.iter().map(|offering| offering.capacity_type.as_str()).collect(),
            key => self.kind.labels.get(key).into_iter().flatten().map(String::as_str).collect(),
        }
    }
}

/// Drops bare-metal and accelerated types unless nothing else is left.
pub(super) fn drop_exotic(candidates: &mut Vec<Candidate<'_>>) {
    if candidates.iter().any(|candidate| !is_exotic(&candidate.kind.labels)) {
        candidates.retain(|candidate| !is_exotic(&candidate.kind.labels));
    }
}

/// Returns reserved if available, else spot, else on-demand. The requirements have already removed all others.
pub(super) fn capacity_type(candidates: &[Candidate<'_>]) -> CapacityType {
    let all = candidates.iter().flat_map(|candidate| &candidate.offerings);
    all.map(|offering| offering.capacity_type).min().unwrap_or(CapacityType::OnDemand)
}

/// Drops spot offerings that cost more than the cheapest on-demand offering of the set. If all of them do, spot remains: the
/// NodeClaim may exclude on-demand for reasons other than price.
pub(super) fn drop_dear_spot(candidates: &mut Vec<Candidate<'_>>) {
    let cheapest = candidates.iter().filter_map(|candidate| candidate.cheapest(Some(CapacityType::OnDemand))).min();
    let Some(limit) = cheapest else { return };
    if !candidates.iter().any(|one| one.cheapest(Some(CapacityType::Spot)).is_some_and(|price| price <= limit)) {
        return;
    }
    for candidate in candidates.iter_mut() {
        candidate.offerings.retain(|offering| offering.capacity_type != CapacityType::Spot || offering.price <= limit);
    }
    candidates.retain(|candidate| candidate.cheapest(Some(CapacityType::Spot)).is_some());
}

/// Drops pools that another launch is probing, unless nothing else is left.
pub(super) fn drop_tried(candidates: &mut Vec<Candidate<'_>>, offer: &LaunchOffer<'_>) {
    let free = |candidate: &Candidate<'_>, offering: &Offering| {
        let (capacity_type, kind) = (offering.capacity_type, candidate.kind.name.as_str());
        !offer.shortages.is_on_trial(capacity_type, kind, &offering.zone, offer.now)
    };
    if !candidates.iter().any(|one| one.offerings.iter().any(|offering| free(one, offering))) {
        return;
    }
    for candidate in candidates.iter_mut() {
        let left = candidate.offerings.iter().copied().filter(|offering| free(candidate, offering)).collect();
        candidate.offerings = left;
    }
    candidates.retain(|candidate| !candidate.offerings.is_empty());
}
