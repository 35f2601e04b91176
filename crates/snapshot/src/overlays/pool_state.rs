//! State of one NodePool's instance types during the evaluation of overlays.

use std::collections::BTreeMap;

use api::{NodePool, PerformanceFactors, PriceChange};
use planner::{Catalogue, InstanceType, MicroDollars, Offering, Requirements, label};

use super::prepared::Prepared;
use super::{Overlaid, OverlayError};

/// Prefix of huge pages, which reduce the allocatable memory.
const HUGE_PAGES: &str = "hugepages-";

/// Positions of the overlays for one value: the first, which takes precedence, and the last so far, which has the lowest
/// weight.
#[derive(Clone, Copy, Debug)]
struct AppliedOverlay {
    first: usize,
    last: usize,
}

/// Overlays that apply to one instance type.
#[derive(Clone, Debug, Default)]
struct TypeState {
    /// One entry per offering, in the same order; offerings without a price come last.
    prices: Vec<Option<AppliedOverlay>>,
    capacity: BTreeMap<String, AppliedOverlay>,
    performance: Option<AppliedOverlay>,
}

/// A NodePool with the overlays that apply to its types.
pub(super) struct PoolState<'a> {
    pub(super) name: String,
    pub(super) pool: &'a NodePool,
    catalogue: &'a Catalogue,
    labels: BTreeMap<String, String>,
    requirements: Requirements,
    types: Vec<TypeState>,
}

/// Positions of the types that match an overlay, each with the positions of the matching offerings.
pub(super) type Matches = Vec<(usize, Vec<usize>)>;

impl<'a> PoolState<'a> {
    pub(super) fn new(
        name: String,
        pool: &'a NodePool,
        catalogue: &'a Catalogue,
        labels: BTreeMap<String, String>,
        requirements: Requirements,
    ) -> Self {
        let unchanged =
            |kind: &InstanceType| TypeState { prices: vec![None; all_offerings(kind).count()], ..Default::default() };
        let types = catalogue.types.iter().map(unchanged).collect();
        Self { name, pool, catalogue, labels, requirements, types }
    }

    /// Returns the types and offerings in this NodePool that match the overlay.
    pub(super) fn matches(&self, overlay: &Prepared) -> Matches {
        let offerings = |kind: &InstanceType| -> Vec<usize> {
            if !self.can_match(overlay, kind) {
                return Vec::new();
            }
            let all = all_offerings(kind).enumerate();
            all.filter(|(_, offering)| offering_matches(overlay, kind, offering))
                .map(|(position, _)| position)
                .collect()
        };
        let all = self.catalogue.types.iter().enumerate().map(|(position, kind)| (position, offerings(kind)));
        all.filter(|(_, offerings)| !offerings.is_empty()).collect()
    }

    /// Reports whether a node of this type in this NodePool can have the labels that the overlay requires, except those of
    /// offerings.
    fn can_match(&self, overlay: &Prepared, kind: &InstanceType) -> bool {
        overlay.requirements.iter().filter(|(key, _)| !decided_by_offering(kind, key)).all(|(key, required)| {
            let pool = self.requirements.get(key);
            let possible = |value: &str| required.allows(Some(value)) && pool.is_none_or(|set| set.allows(Some(value)));
            match (kind.labels.get(key), self.labels.get(key)) {
                (Some(values), _) => values.iter().any(|value| possible(value)),
                (None, Some(value)) => possible(value),
                (None, None) if key == label::INSTANCE_TYPE => possible(&kind.name),
                (None, None) => {
                    pool.map_or_else(|| required.allows(None), |set| !set.intersection(required).is_empty())
                }
            }
        })
    }

    /// Returns the first conflict with an overlay that satisfies `rivals`, with instance type and value. Only the last overlay
    /// so far of each value can be in conflict.
    pub(super) fn conflict(
        &self,
        overlay: &Prepared,
        matches: &Matches,
        rivals: impl Fn(usize) -> bool,
    ) -> Option<(usize, String, String)> {
        let rival = |applied: Option<&AppliedOverlay>| applied.map(|applied| applied.last).filter(|last| rivals(*last));
        matches.iter().find_map(|(position, offerings)| {
            let (kind, state) = (&self.catalogue.types[*position], &self.types[*position]);
            let found = |subject: &str, other: usize| (other, kind.name.clone(), subject.to_owned());
            let mut prices = offerings.iter().filter(|_| overlay.price.is_some());
            let price = prices.find_map(|offering| rival(state.prices[*offering].as_ref()));
            let mut amounts = overlay.capacity.iter();
            let amount = || amounts.find_map(|(name, _)| Some(found(name, rival(state.capacity.get(name))?)));
            let performance = || rival(state.performance.as_ref()).filter(|_| overlay.performance.is_some());
            price
                .map(|other| found("the price", other))
                .or_else(amount)
                .or_else(|| performance().map(|other| found("the performance", other)))
        })
    }

    /// Records the values that the overlay at `position` changes.
    pub(super) fn record(&mut self, position: usize, overlay: &Prepared, matches: &Matches) {
        let new = AppliedOverlay { first: position, last: position };
        for (kind, offerings) in matches {
            let state = &mut self.types[*kind];
            if overlay.price.is_some() {
                for offering in offerings {
                    state.prices[*offering].get_or_insert(new).last = position;
                }
            }
            for (resource, _) in &overlay.capacity {
                state.capacity.entry(resource.clone()).or_insert(new).last = position;
            }
            if overlay.performance.is_some() {
                state.performance.get_or_insert(new).last = position;
            }
        }
    }

    /// Returns the NodePool's own catalogue if anything changes in it.
    pub(super) fn finish(
        &self,
        overlays: &[Result<Prepared, OverlayError>],
        factors: &PerformanceFactors,
    ) -> Option<(Catalogue, Overlaid)> {
        let unchanged = |state: &TypeState| {
            state.capacity.is_empty() && state.performance.is_none() && state.prices.iter().all(Option::is_none)
        };
        if factors.entries().is_empty() && self.types.iter().all(unchanged) {
            return None;
        }
        let mut overlaid = Overlaid::default();
        let first = |applied: &AppliedOverlay| overlays.get(applied.first).and_then(|overlay| overlay.as_ref().ok());
        let types = self.catalogue.types.iter().zip(&self.types);
        let types = types.map(|(kind, state)| apply_overlays(kind, state, factors, &first, &mut overlaid)).collect();
        let Catalogue { name, shifted_zones, node_extras, .. } = self.catalogue;
        let (name, shifted_zones) = (name.clone(), shifted_zones.clone());
        Some((Catalogue { name, types, shifted_zones, node_extras: *node_extras }, overlaid))
    }
}

fn apply_overlays<'a>(
    kind: &InstanceType,
    state: &TypeState,
    factors: &PerformanceFactors,
    first: &impl Fn(&AppliedOverlay) -> Option<&'a Prepared>,
    overlaid: &mut Overlaid,
) -> InstanceType {
    let mut kind = kind.clone();
    let change = |by: &Option<AppliedOverlay>| by.as_ref().and_then(first).and_then(|overlay| overlay.price);
    let (priced, unpriced) = state.prices.split_at(kind.offerings.len().min(state.prices.len()));
    for (offering, change) in kind.offerings.iter_mut().zip(priced.iter().map(change)) {
        if let Some(change) = change {
            let charged = change.apply(offering.charged().0);
            offering.price = MicroDollars(change.apply(offering.price.0));
            offering.premium = MicroDollars(offering.price.0 - charged);
            overlaid.price.insert(kind.name.clone());
        }
    }
    if priced_by_overlays(&mut kind, unpriced.iter().map(change)) {
        overlaid.price.insert(kind.name.clone());
    }
    for (resource, by) in &state.capacity {
        let amounts = first(by).map(|overlay| overlay.capacity.as_slice()).unwrap_or_default();
        if let Some((_, amount)) = amounts.iter().find(|(name, _)| name == resource) {
            set_amount(&mut kind, resource, *amount);
            overlaid.capacity.insert(kind.name.clone());
        }
    }
    let by_pool = factors.factor(|key, value| match kind.labels.get(key) {
        Some(values) => values.iter().any(|own| own == value),
        None => key == label::INSTANCE_TYPE && kind.name == value,
    });
    kind.performance = state
        .performance
        .as_ref()
        .and_then(first)
        .and_then(|overlay| overlay.performance)
        .or(by_pool)
        .or(kind.performance);
    kind
}

/// Gives a price to offerings without one where an overlay sets an absolute price. Returns true if any got one. An adjustment
/// of an unknown price has no effect.
fn priced_by_overlays(kind: &mut InstanceType, changes: impl Iterator<Item = Option<PriceChange>>) -> bool {
    let (before, mut left) = (kind.offerings.len(), Vec::new());
    for (offering, change) in std::mem::take(&mut kind.unpriced).into_iter().zip(changes) {
        match change {
            Some(PriceChange::Absolute(price)) => {
                kind.offerings.push(Offering { price: MicroDollars(price), ..offering });
            }
            _ => left.push(offering),
        }
    }
    kind.unpriced = left;
    kind.offerings.len() > before
}

/// Lists all offerings; those without a price come last.
fn all_offerings(kind: &InstanceType) -> impl Iterator<Item = &Offering> {
    kind.offerings.iter().chain(&kind.unpriced)
}

/// Sets the amount of a resource in the capacity and the allocatable resources.
fn set_amount(kind: &mut InstanceType, resource: &str, amount: i64) {
    if resource.starts_with(HUGE_PAGES) {
        let more = amount - kind.capacity.get(resource);
        let left = kind.allocatable.get(planner::Resources::MEMORY) - more;
        kind.allocatable.set(planner::Resources::MEMORY, left.max(0));
    }
    kind.capacity.set(resource, amount);
    kind.allocatable.set(resource, amount);
}

fn decided_by_offering(kind: &InstanceType, key: &str) -> bool {
    key == label::ZONE || key == label::CAPACITY_TYPE || all_offerings(kind).any(|it| it.labels.contains_key(key))
}

/// Reports whether the offering has those labels of the overlay's requirements that offerings determine.
fn offering_matches(overlay: &Prepared, kind: &InstanceType, offering: &Offering) -> bool {
    overlay.requirements.iter().filter(|(key, _)| decided_by_offering(kind, key)).all(|(key, required)| {
        required.allows(match key {
            label::ZONE => Some(&offering.zone),
            label::CAPACITY_TYPE => Some(offering.capacity_type.as_str()),
            key => offering.labels.get(key).map(String::as_str),
        })
    })
}
