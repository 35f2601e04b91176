//! Choice of the instance types and pools that a NodeClaim may launch, cheapest first.

use std::collections::{BTreeMap, BTreeSet};

use api::label;
use planner::{CapacityType, InstanceType, MinValuesPolicy, Offer as TypeOffer, Offering, Reservation, Resources};

use super::candidate::{Candidate, Selection, drop_exotic, drop_tried, selections};
use super::reserved::{self, ReservationKind};
use super::template::{self, TemplateSource};
use super::{LaunchChoice, LaunchOffer, LaunchRefusal, LaunchRequest, MAX_TYPES};
use crate::calls::{FleetConfig, FleetOverride, LaunchTemplateRequest, Placement, Subnet};
use crate::types::EFA;
use crate::unavailable_offerings::GroupPlace;

/// Chooses the pools and templates for a NodeClaim.
///
/// # Errors
/// When no offering is available, or the user data of the EC2NodeClass cannot be rendered.
pub fn choose(request: &LaunchRequest, offer: &LaunchOffer<'_>) -> Result<LaunchChoice, LaunchRefusal> {
    let subnets = subnets(offer);
    let mut candidates = candidates(request, offer, &subnets)?;
    reserved::narrow(&mut candidates);
    let min_values = request.requirements.iter().any(|(_, set)| set.min_values().is_some());
    if !min_values {
        drop_exotic(&mut candidates);
    }
    let Selection { capacity_type, candidates: mut selected } = select(request, &candidates)?;
    if !min_values {
        drop_tried(&mut selected, offer);
    }
    keep_cheapest(&mut selected);
    let as_requested = has_min_values(request, offer, &selected, candidates)?;
    let choice = assemble(request, offer, capacity_type, &selected, &subnets)?;
    // The `context` requires instances as requested, so a request with lowered `minValues` is sent without it.
    Ok(if as_requested { choice } else { LaunchChoice { context: None, min_values_relaxed: true, ..choice } })
}

/// Sorts the candidates by cost and drops those beyond [`MAX_TYPES`].
fn keep_cheapest(candidates: &mut Vec<Candidate<'_>>) {
    candidates.sort_by_key(|candidate| (candidate.cheapest(), candidate.kind.name.as_str()));
    candidates.truncate(MAX_TYPES);
}

/// Returns the first selection with as many values as `minValues` requires, else the first one: [`has_min_values`] decides.
fn select<'a>(request: &LaunchRequest, candidates: &[Candidate<'a>]) -> Result<Selection<'a>, LaunchRefusal> {
    let mut selections = selections(candidates);
    let enough = |it: &Selection<'_>| check_min_values(request, &it.candidates).is_ok();
    let position = selections.iter().position(enough).unwrap_or(0);
    if selections.is_empty() {
        return Err(LaunchRefusal::InsufficientCapacity("no offering is left".to_owned()));
    }
    Ok(selections.swap_remove(position))
}

/// Returns for each zone the subnet with the most free addresses, among those that have any. Addresses of launches in flight
/// are an estimate, so they only rank subnets and never exclude one.
fn subnets<'a>(offer: &LaunchOffer<'a>) -> BTreeMap<&'a str, &'a Subnet> {
    let mut best: BTreeMap<&str, &Subnet> = BTreeMap::new();
    let usable = |subnet: &&Subnet| subnet.free_addresses > 0 && !offer.shortages.holds_subnet(&subnet.id, offer.now);
    for subnet in offer.class.subnets.iter().filter(usable) {
        let held = best.entry(&subnet.zone).or_insert(subnet);
        let left = |subnet: &Subnet| i64::from(subnet.free_addresses) - offer.in_flight.free_in(&subnet.id, offer.now);
        let better = (left(subnet), &held.id) > (left(held), &subnet.id);
        if better {
            *held = subnet;
        }
    }
    best
}

fn candidates<'a>(
    request: &LaunchRequest,
    offer: &LaunchOffer<'a>,
    subnets: &BTreeMap<&str, &Subnet>,
) -> Result<Vec<Candidate<'a>>, LaunchRefusal> {
    let well_known: BTreeSet<String> =
        label::CORE_WELL_KNOWN.iter().chain(&label::AWS_WELL_KNOWN).map(|key| (*key).to_owned()).collect();
    let mut given = request.labels.clone();
    given.insert(label::NODEPOOL.to_owned(), request.pool.clone());
    given.insert(label::EC2_NODE_CLASS.to_owned(), offer.class.name.clone());
    let place = template::placement(request, offer);
    let (mut fitting, mut small) = (0usize, 0usize);
    let mut candidates = Vec::new();
    for kind in &offer.catalogue.types {
        let offered = TypeOffer::new(kind);
        if !offered.labels_match(&request.requirements, &given, &well_known) {
            continue;
        }
        if !requested_amounts(&request.requests).fits(&kind.allocatable) {
            small += 1;
            continue;
        }
        fitting += 1;
        let open = |offering: &&Offering| {
            let reachable = offering.available && subnets.contains_key(offering.zone.as_str());
            reachable && has_capacity(offer, &place, kind, offering)
        };
        let offerings: Vec<&Offering> = offered.offerings(&request.requirements).filter(open).collect();
        if !offerings.is_empty() {
            candidates.push(Candidate { kind, offerings });
        }
    }
    if candidates.is_empty() {
        let zones = offer.class.zones();
        let shifted = zones.iter().filter(|(_, zone)| offer.shortages.is_shifted(&zone.id, offer.now));
        let excluded: String = shifted.map(|(name, _)| format!("; a zonal shift excludes {name}")).collect();
        let message = format!(
            "none of {} instance types is available: {small} of the matching ones are too small, {fitting} have no \
             capacity, image or subnet{excluded}",
            offer.catalogue.types.len()
        );
        return Err(LaunchRefusal::InsufficientCapacity(message));
    }
    Ok(candidates)
}

/// Reports whether an offering, its reservation and its placement group have capacity, and its zone no zonal shift, with current
/// data. The catalogue may be
/// older.
fn has_capacity(offer: &LaunchOffer<'_>, place: &Placement, kind: &InstanceType, offering: &Offering) -> bool {
    let reserved = offering.reservation.as_ref();
    let used_up = |one: &Reservation| one.remaining == 0 || offer.shortages.holds_reservation(&one.id, offer.now);
    let (capacity_type, name, zone) = (offering.capacity_type, &kind.name, &offering.zone);
    let full = |group: &String| {
        let place = GroupPlace { group, partition: place.partition };
        offer.shortages.holds_placed(capacity_type, name, zone, place, offer.now)
    };
    let shifted = offering.labels.get(label::ZONE_ID).is_some_and(|id| offer.shortages.is_shifted(id, offer.now));
    let unavailable = shifted || offer.shortages.holds(capacity_type, name, zone, offer.now);
    !unavailable && !reserved.is_some_and(used_up) && !place.group_id.as_ref().is_some_and(full)
}

/// Returns the requests without the node count, which no instance type has.
fn requested_amounts(requests: &Resources) -> Resources {
    requests.iter().filter(|(name, _)| *name != Resources::NODES).collect()
}

/// Reports whether `minValues` hold as requested.
///
/// The plan may have lowered them. Like the planner and Karpenter, a launch counts the values of all capacity types, although it
/// uses one of them at a time. If they break only now, at the limit of [`MAX_TYPES`] or because capacity has changed, the policy
/// decides: lowered (`BestEffort`) or refused.
fn has_min_values(
    request: &LaunchRequest,
    offer: &LaunchOffer<'_>,
    selected: &[Candidate<'_>],
    mut all: Vec<Candidate<'_>>,
) -> Result<bool, LaunchRefusal> {
    if request.min_values_relaxed {
        return Ok(false);
    }
    keep_cheapest(&mut all);
    match check_min_values(request, selected).or_else(|_| check_min_values(request, &all)) {
        Err(_) if offer.settings.min_values == MinValuesPolicy::BestEffort => Ok(false),
        checked => checked.map(|()| true),
    }
}

/// Checks that `minValues` hold for the remaining instance types.
fn check_min_values(request: &LaunchRequest, candidates: &[Candidate<'_>]) -> Result<(), LaunchRefusal> {
    for (key, set) in request.requirements.iter() {
        let Some(least) = set.min_values() else { continue };
        let values: BTreeSet<&str> = candidates.iter().flat_map(|candidate| candidate.values(key)).collect();
        let left = values.iter().filter(|value| set.allows(Some(value))).count();
        if left < usize::try_from(least).unwrap_or(usize::MAX) {
            let message = format!("minValues of {key} is {least}, but only {left} values are available");
            return Err(LaunchRefusal::InsufficientCapacity(message));
        }
    }
    Ok(())
}

/// Groups the candidates by launch template and lists the pools of each template.
fn assemble(
    request: &LaunchRequest,
    offer: &LaunchOffer<'_>,
    capacity_type: CapacityType,
    candidates: &[Candidate<'_>],
    subnets: &BTreeMap<&str, &Subnet>,
) -> Result<LaunchChoice, LaunchRefusal> {
    let mut groups: BTreeMap<TemplateSource<'_>, Vec<FleetOverride>> = BTreeMap::new();
    let mut reservations = BTreeMap::new();
    for candidate in candidates {
        let Some(image) = offer.class.image_for(&candidate.kind.labels) else { continue };
        for offering in &candidate.offerings {
            let Some(subnet) = subnets.get(offering.zone.as_str()) else { continue };
            let source = template_source(request, &image.image.id, candidate, offering);
            if let Some((id, _)) = source.reservation {
                reservations.insert((candidate.kind.name.clone(), offering.zone.clone()), id.to_owned());
            }
            groups.entry(source).or_default().push(FleetOverride {
                instance_type: candidate.kind.name.clone(),
                zone: offering.zone.clone(),
                subnet_id: subnet.id.clone(),
                image_id: image.image.id.clone(),
                priority: candidate.kind.cost(offering.price),
            });
        }
    }
    if groups.is_empty() {
        let message = "the EC2NodeClass has no image for any of the instance types".to_owned();
        return Err(LaunchRefusal::InsufficientCapacity(message));
    }
    let reservation_kind = groups.keys().find_map(|source| source.reservation.map(|(_, kind)| kind));
    let (mut templates, mut configs) = (Vec::<LaunchTemplateRequest>::new(), Vec::new());
    for (source, overrides) in groups {
        let template = template::template_request(request, offer, capacity_type, source)
            .map_err(|error| LaunchRefusal::Class { class: offer.class.name.clone(), source: error })?;
        configs.push(FleetConfig { launch_template: template.name.clone(), overrides });
        templates.push(template);
    }
    let pods = candidates.iter().map(|candidate| candidate.kind.capacity.get(Resources::PODS)).min();
    Ok(LaunchChoice {
        capacity_type,
        reservation_kind,
        reservations,
        templates,
        configs,
        tags: template::tags(request, offer),
        context: offer.class.spec.context.clone(),
        prioritized: request.overlay_priced || candidates.iter().any(|candidate| candidate.kind.performance.is_some()),
        omits_own_tags: offer.class.omits_own_tags,
        addresses: u32::try_from(pods.unwrap_or_default()).unwrap_or(0),
        min_values_relaxed: false,
    })
}

/// Returns the properties of an offering that determine its launch template.
fn template_source<'a>(
    request: &LaunchRequest,
    image_id: &'a str,
    candidate: &Candidate<'a>,
    offering: &'a Offering,
) -> TemplateSource<'a> {
    let capacity = &candidate.kind.capacity;
    TemplateSource {
        image_id,
        max_pods: u32::try_from(capacity.get(Resources::PODS)).unwrap_or(0),
        efa: template::requested_efa(request, capacity.get(EFA)),
        reservation: offering
            .reservation
            .as_ref()
            .map(|one| (one.id.as_str(), ReservationKind::from_offering(offering))),
    }
}
