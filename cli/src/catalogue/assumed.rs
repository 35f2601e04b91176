//! Assumed status of a class that no controller has reconciled: images of its family for every architecture, a subnet in every
//! zone.

use std::collections::{BTreeMap, BTreeSet};

use api::nodeclass::{Ami, AmiFamily, AmiSelectorTerm};
use api::{EC2NodeClass, EC2NodeClassSpec, Operator, Requirement, label};
use cloud::Image;
use cloud::nodeclass::ResolvedImage;
use cloud::nodeclass::Zone;
use jiff::Timestamp;
use planner::{CapacityType, Catalogue, MicroDollars, Offering, Reservation};

/// Returns a class of which only the name is known, with family AL2023.
pub(crate) fn class(name: &str) -> EC2NodeClass {
    let term = AmiSelectorTerm { alias: Some("al2023@latest".to_owned()), ..AmiSelectorTerm::default() };
    EC2NodeClass::new(name, EC2NodeClassSpec { ami_selector_terms: vec![term], ..EC2NodeClassSpec::default() })
}

/// Returns a warning about the prices of a class with Windows: all known prices are those of Linux.
pub(crate) fn price_warning(class: &EC2NodeClass) -> Option<String> {
    let name = class.metadata.name.as_deref().unwrap_or_default();
    let family = class.spec.resolved_ami_family();
    let text =
        || format!("EC2NodeClass {name}: prices are those of Linux; EC2 adds the licence of {}", family.as_str());
    family.is_windows().then(text)
}

/// Returns the images of the class's status, else those of its family.
pub(crate) fn images(class: &EC2NodeClass) -> Vec<ResolvedImage> {
    let shown = class.status.as_ref().map_or(&[][..], |status| &status.amis);
    if !shown.is_empty() {
        return shown.iter().map(image).collect();
    }
    let requirement = |key, operator| Requirement::new(key, operator, [""; 0]);
    let family = class.spec.resolved_ami_family();
    let kinds: Vec<Vec<Requirement>> = match family {
        AmiFamily::Custom => vec![Vec::new()],
        windows if windows.is_windows() => vec![Vec::new()],
        _ => vec![
            vec![
                requirement(label::INSTANCE_ACCELERATOR_COUNT, Operator::DoesNotExist),
                requirement(label::INSTANCE_GPU_COUNT, Operator::DoesNotExist),
            ],
            vec![requirement(label::INSTANCE_GPU_COUNT, Operator::Exists)],
            vec![requirement(label::INSTANCE_ACCELERATOR_COUNT, Operator::Exists)],
        ],
    };
    let mut images = Vec::new();
    for arch in [label::ARCH_AMD64, label::ARCH_ARM64] {
        for kind in &kinds {
            let mut requirements = kind.clone();
            requirements.push(Requirement::new(label::ARCH, Operator::In, [arch]));
            images.push(image(&Ami { requirements, ..Ami::default() }));
        }
    }
    images
}

fn image(ami: &Ami) -> ResolvedImage {
    let image = Image { id: ami.id.clone(), name: ami.name.clone(), ..Image::default() };
    ResolvedImage { image, requirements: ami.requirements.clone() }
}

/// Returns the zones of the subnets in the class's status, else every zone of the region.
pub(crate) fn zones(class: &EC2NodeClass, all: &BTreeSet<String>) -> BTreeMap<String, Zone> {
    let shown = class.status.as_ref().map_or(&[][..], |status| &status.subnets);
    let mut zones: BTreeMap<String, Zone> = BTreeMap::new();
    for subnet in shown {
        let zone = zones.entry(subnet.zone.clone()).or_default();
        zone.id.clone_from(&subnet.zone_id);
        zone.subnets.push(subnet.id.clone());
    }
    if zones.is_empty() {
        let assumed = |zone: &String| (zone.clone(), Zone { id: String::new(), subnets: vec![String::new()] });
        zones = all.iter().map(assumed).collect();
    }
    zones
}

/// Removes empty zone ids. The id of a zone differs between accounts, so an offering in an assumed zone has none.
pub(crate) fn remove_unknown_zone_ids(catalogue: &mut Catalogue) {
    for offering in catalogue.types.iter_mut().flat_map(|kind| kind.offerings.iter_mut().chain(&mut kind.unpriced)) {
        offering.labels.retain(|key, value| key != label::ZONE_ID || !value.is_empty());
    }
}

/// Adds the capacity reservations of the class's status. No object of a cluster holds their remaining capacity, so each counts
/// as one instance, with a warning.
pub(crate) fn add_reservations(catalogue: &mut Catalogue, class: &EC2NodeClass, now: Timestamp) -> Vec<String> {
    let mut warnings = Vec::new();
    let shown = class.status.as_ref().map_or(&[][..], |status| &status.capacity_reservations);
    let current = shown.iter().filter(|it| it.end_time.as_ref().is_none_or(|end| end.0 > now));
    for reservation in current.filter(|it| it.state == "active") {
        let kind = catalogue.types.iter_mut().find(|kind| kind.name == reservation.instance_type);
        let Some(kind) = kind else { continue };
        let mut labels = BTreeMap::from([
            (label::CAPACITY_RESERVATION_ID.to_owned(), reservation.id.clone()),
            (label::CAPACITY_RESERVATION_TYPE.to_owned(), reservation.reservation_type.clone()),
            (label::CAPACITY_RESERVATION_INTERRUPTIBLE.to_owned(), reservation.interruptible.to_string()),
        ]);
        let same_zone = kind.offerings.iter().find(|offering| offering.zone == reservation.availability_zone);
        let zone_id = same_zone.and_then(|offering| offering.labels.get(label::ZONE_ID)).cloned();
        labels.extend(zone_id.map(|id| (label::ZONE_ID.to_owned(), id)));
        let available = kind.offerings.iter().any(|offering| offering.available);
        kind.offerings.push(Offering {
            zone: reservation.availability_zone.clone(),
            capacity_type: CapacityType::Reserved,
            price: MicroDollars(0),
            premium: MicroDollars(0),
            available,
            labels,
            reservation: Some(Reservation { id: reservation.id.clone(), remaining: 1 }),
        });
        warnings.push(format!(
            "capacity reservation {}: unknown remaining capacity, assuming one instance",
            reservation.id
        ));
    }
    warnings
}
