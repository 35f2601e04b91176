//! Replacements that are certainly cheaper. Of all possible types of a launch, those remain that cost less than the replaced
//! nodes and are not overloaded by the assigned pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{
    CapacityType, FirstChoice, InstanceType, Launch, MicroDollars, NodeVerdict, Offer, Offering, Overload,
    Requirements, Size, Snapshot, label, utilization_limit,
};

/// Minimum number of cheaper spot types for the replacement of a single spot node by another one. Fewer types mean that the
/// node is among the cheapest already.
const LEAST_SPOT_TYPES: usize = 15;

/// Constraints of a replacement.
#[derive(Clone, Copy)]
pub(super) struct ReplacementRules {
    /// Maximum price in the worst case.
    pub(super) most: i64,
    /// True if all replaced nodes are spot.
    pub(super) from_spot: bool,
    /// True if one node is replaced by one.
    pub(super) single: bool,
    /// Measured usage of its pods: the node must not be overloaded by it.
    pub(super) used: Size,
}

/// Returns the launch restricted to types within the rules, or the verdict if there are none.
pub(super) fn narrow(snapshot: &Snapshot, launch: &Launch, terms: ReplacementRules) -> Result<Launch, NodeVerdict> {
    let none = NodeVerdict::Cheapest { pods: 0 };
    let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool);
    let types = pool.and_then(|pool| snapshot.catalogues.get(pool.catalogue)).map_or(&[][..], |it| &it.types);
    let find = |name: &String| types.iter().find(|kind| kind.name == *name);
    let all: Vec<&InstanceType> = launch.instance_types.iter().filter_map(find).collect();
    if launch.commitment.is_some() {
        return narrow_paid(launch, &all, terms.used);
    }
    let mut offerings = available(&all, &requirements(launch));
    while let Some(first) = FirstChoice::new(offerings.iter().copied()) {
        let to_spot = first.capacity_type == CapacityType::Spot;
        if terms.from_spot && to_spot && !snapshot.policy.spot_to_spot {
            return Err(NodeVerdict::SpotToSpot { types: None });
        }
        let narrowed = launch_as(launch, first.capacity_type);
        let kinds = cheaper(&all, &requirements(&narrowed), terms.most);
        if !kinds.is_empty() || (terms.from_spot && to_spot) {
            let kinds = below_utilization_limit(kinds, terms.used)?;
            let kept = if terms.from_spot && terms.single && to_spot { few(&narrowed, kinds)? } else { kinds };
            return finish(narrowed, &kept).ok_or(none);
        }
        offerings.retain(|(_, offering)| offering.capacity_type != first.capacity_type);
    }
    Err(none)
}

/// Returns a launch that a commitment pays for: any of its types costs nothing more.
fn narrow_paid(launch: &Launch, kinds: &[&InstanceType], used: Size) -> Result<Launch, NodeVerdict> {
    let kinds = below_utilization_limit(kinds.iter().map(|kind| (*kind, launch.price.0)).collect(), used)?;
    if kinds.is_empty() || !keeps_values(launch, &kinds) {
        return Err(NodeVerdict::Cheapest { pods: 0 });
    }
    let instance_types = Arc::new(kinds.iter().map(|(kind, _)| kind.name.clone()).collect());
    Ok(Launch { instance_types, ..launch.clone() })
}

fn requirements(launch: &Launch) -> Requirements {
    launch.requirements.iter().collect()
}

/// Returns the launch restricted to one capacity type. Otherwise a launch without capacity of that type would become a node of
/// another one that costs more.
fn launch_as(launch: &Launch, capacity_type: CapacityType) -> Launch {
    let mut narrowed = launch.clone();
    for requirement in narrowed.requirements.iter_mut().filter(|it| it.key == label::CAPACITY_TYPE) {
        requirement.values = vec![capacity_type.as_str().to_owned()];
    }
    narrowed
}

/// Returns the available offerings that satisfy the requirements, each with its type.
fn available<'k>(kinds: &[&'k InstanceType], requirements: &Requirements) -> Vec<(&'k InstanceType, &'k Offering)> {
    let of_kind = |kind: &&'k InstanceType| {
        let kind = *kind;
        let available: Vec<&Offering> = Offer::new(kind).offerings(requirements).filter(|it| it.available).collect();
        available.into_iter().map(move |offering| (kind, offering))
    };
    kinds.iter().flat_map(of_kind).collect()
}

/// Returns types with an available offering of which no offering costs more than `most`, with the price of the cheapest
/// available one. An offering that is unavailable now can be available again when the replacement is launched.
fn cheaper<'k>(kinds: &[&'k InstanceType], requirements: &Requirements, most: i64) -> Vec<(&'k InstanceType, i64)> {
    let of_kind = |kind: &&'k InstanceType| {
        let offer = Offer::new(kind);
        let cheapest = offer.offerings(requirements).filter(|it| it.available).map(|it| it.price.0).min()?;
        let dearest = offer.offerings(requirements).map(|it| it.price.0).max()?;
        (dearest <= most).then_some((*kind, cheapest))
    };
    kinds.iter().filter_map(of_kind).collect()
}

/// Returns types that this usage does not overload; an error where it overloads all of them.
fn below_utilization_limit(
    kinds: Vec<(&InstanceType, i64)>,
    used: Size,
) -> Result<Vec<(&InstanceType, i64)>, NodeVerdict> {
    let strain = |kind: &InstanceType| utilization_limit::exceeded(used, Size::from_resources(&kind.allocatable));
    let percent = |strain: &Overload| match strain {
        Overload::Cpu(percent) | Overload::Memory(percent) => *percent,
        Overload::Short(_) => i64::MAX,
    };
    let least = kinds.iter().filter_map(|(kind, _)| strain(kind)).min_by_key(percent);
    let calm: Vec<(&InstanceType, i64)> = kinds.into_iter().filter(|(kind, _)| strain(kind).is_none()).collect();
    match least.filter(|_| calm.is_empty()) {
        Some(strain) => Err(NodeVerdict::CheaperIsBusy { strain }),
        None => Ok(calm),
    }
}

/// Returns the fewest of the cheapest types that a single spot node may choose from.
fn few<'k>(launch: &Launch, kinds: Vec<(&'k InstanceType, i64)>) -> Result<Vec<(&'k InstanceType, i64)>, NodeVerdict> {
    if kinds.len() < LEAST_SPOT_TYPES {
        return Err(NodeVerdict::SpotToSpot { types: Some(kinds.len()) });
    }
    let mut kept = kinds;
    kept.sort_by_key(|(kind, price)| (kind.cost(MicroDollars(*price)), kind.name.as_str()));
    let enough = (LEAST_SPOT_TYPES..=kept.len()).find(|count| keeps_values(launch, &kept[..*count]));
    kept.truncate(enough.unwrap_or(kept.len()));
    Ok(kept)
}

/// Returns the launch with these types only, if they have as many values as `minValues` requires, or as the plan lowered it to.
fn finish(mut launch: Launch, kinds: &[(&InstanceType, i64)]) -> Option<Launch> {
    if kinds.is_empty() || !keeps_values(&launch, kinds) {
        return None;
    }
    let mut kinds = kinds.to_vec();
    kinds.sort_by_key(|(kind, price)| (kind.cost(MicroDollars(*price)), kind.name.as_str()));
    launch.price = MicroDollars(kinds.first()?.1);
    launch.instance_types = Arc::new(kinds.iter().map(|(kind, _)| kind.name.clone()).collect());
    Some(launch)
}

fn keeps_values(launch: &Launch, kinds: &[(&InstanceType, i64)]) -> bool {
    let requirements = requirements(launch);
    let enough = launch.min_instance_types.is_none_or(|least| kinds.len() >= least as usize);
    let counted = launch.requirements.iter().filter_map(|it| Some((it.key.as_str(), it.min_values?)));
    enough && counted.into_iter().all(|(key, least)| values(kinds, key, &requirements) >= least as usize)
}

fn values(kinds: &[(&InstanceType, i64)], key: &str, requirements: &Requirements) -> usize {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    for (kind, _) in kinds {
        found.extend(kind.labels.get(key).into_iter().flatten().map(String::as_str));
        found.extend(Offer::new(kind).offerings(requirements).filter_map(|offering| offering.value(key)));
    }
    found.retain(|value| requirements.get(key).is_none_or(|set| set.allows(Some(value))));
    found.len()
}
