//! Candidates of a launch, and the reasons to drop some of them while others remain.

use api::label;
use planner::{CapacityType, FirstChoice, InstanceType, Offering};

use super::LaunchOffer;

/// An instance type that the NodeClaim may launch, with its compatible available offerings.
#[derive(Clone)]
pub(super) struct Candidate<'a> {
    pub(super) kind: &'a InstanceType,
    pub(super) offerings: Vec<&'a Offering>,
}

impl<'a> Candidate<'a> {
    /// Returns the lowest cost of its offerings.
    pub(super) fn cheapest(&self) -> Option<i64> {
        self.offerings.iter().map(|offering| self.kind.cost(offering.price)).min()
    }

    /// Returns the candidate with those offerings that `keeps` accepts; `None` without any.
    fn restricted(&self, keeps: impl Fn(&InstanceType, &Offering) -> bool) -> Option<Self> {
        let kept: Vec<&'a Offering> = self.offerings.iter().copied().filter(|it| keeps(self.kind, it)).collect();
        (!kept.is_empty()).then_some(Self { kind: self.kind, offerings: kept })
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

/// Drops bare-metal and accelerated types unless nothing else is left. The planner lists types by the same rule, so that this
/// changes only NodeClaims that list both, such as those of static NodePools.
pub(super) fn drop_exotic(candidates: &mut Vec<Candidate<'_>>) {
    if candidates.iter().any(|candidate| !candidate.kind.is_exotic()) {
        candidates.retain(|candidate| !candidate.kind.is_exotic());
    }
}

/// Candidates of one capacity type.
pub(super) struct Selection<'a> {
    pub(super) capacity_type: CapacityType,
    pub(super) candidates: Vec<Candidate<'a>>,
}

/// Returns what a launch may request, in the order in which the planner prices launches: the capacity type of the cheapest
/// offering first. Spot comes without offerings above the cheapest on-demand one, then with them: `minValues` may need these.
pub(super) fn selections<'a>(candidates: &[Candidate<'a>]) -> Vec<Selection<'a>> {
    let all = candidates.iter().flat_map(|one| one.offerings.iter().map(move |offering| (one.kind, *offering)));
    let mut left: Vec<(&InstanceType, &Offering)> = all.collect();
    let mut selections = Vec::new();
    while let Some(first) = FirstChoice::new(left.iter().copied()) {
        let capacity_type = first.capacity_type;
        let kept = |keeps: &dyn Fn(&InstanceType, &Offering) -> bool| Selection {
            capacity_type,
            candidates: candidates.iter().filter_map(|one| one.restricted(keeps)).collect(),
        };
        selections.push(kept(&|kind, offering| first.includes(kind, offering)));
        selections.push(kept(&|_, offering| offering.capacity_type == capacity_type));
        left.retain(|(_, offering)| offering.capacity_type != capacity_type);
    }
    selections
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
