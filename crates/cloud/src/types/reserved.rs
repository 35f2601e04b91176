//! Additions of an EC2NodeClass to its catalogue: capacity reservations as offerings at price zero, because they are already
//! paid, and the placement group as labels.

use api::label;
use jiff::Timestamp;
use planner::{CapacityType, Catalogue, MicroDollars, Offering, Reservation};

use super::{ClassSettings, Source, unfit};
use crate::calls::CapacityReservation;
use crate::nodeclass::{ResolvedClass, is_expiring};
use crate::unavailable_offerings::UnavailableOfferings;

/// Adds the reservations of an EC2NodeClass to its catalogue.
///
/// A reservation is unavailable if it is exhausted or ends soon. A reservation is also unavailable if its type is incompatible
/// with the EC2NodeClass, or if its zone has no free address or a zonal shift. Unavailable reservations remain in the catalogue so that reports
/// can explain them.
pub fn add_reservations(
    catalogue: &mut Catalogue,
    class: &ResolvedClass,
    sizes: &ClassSettings,
    source: &Source<'_>,
    now: Timestamp,
) {
    let fits = |name: &str| source.infos.iter().any(|info| info.name == name && unfit(info, sizes).is_none());
    let zones = class.zones();
    for reservation in &class.reservations {
        let kind = catalogue.types.iter_mut().find(|kind| kind.name == reservation.instance_type);
        let Some((kind, zone)) = kind.zip(zones.get(&reservation.zone)) else { continue };
        let addresses = zone.subnets.iter().any(|subnet| !source.shortages.holds_subnet(subnet, now));
        let shifted = source.shortages.is_shifted(&zone.id, now);
        let runs = fits(&kind.name) && class.image_for(&kind.labels).is_some();
        kind.offerings.push(Offering {
            zone: reservation.zone.clone(),
            capacity_type: CapacityType::Reserved,
            price: MicroDollars(0),
            premium: MicroDollars(0),
            available: runs && addresses && !shifted && has_capacity(reservation, source.shortages, now),
            labels: labels(reservation, &zone.id),
            reservation: Some(Reservation { id: reservation.id.clone(), remaining: reservation.available }),
        });
    }
}

fn has_capacity(reservation: &CapacityReservation, shortages: &UnavailableOfferings, now: Timestamp) -> bool {
    let exhausted = shortages.holds_reservation(&reservation.id, now);
    reservation.available > 0 && !exhausted && !is_expiring(reservation, now)
}

fn labels(reservation: &CapacityReservation, zone_id: &str) -> std::collections::BTreeMap<String, String> {
    let kind = if reservation.capacity_block { "capacity-block" } else { "default" };
    [
        (label::ZONE_ID, zone_id.to_owned()),
        (label::CAPACITY_RESERVATION_ID, reservation.id.clone()),
        (label::CAPACITY_RESERVATION_TYPE, kind.to_owned()),
        (label::CAPACITY_RESERVATION_INTERRUPTIBLE, reservation.interruptible.to_string()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// Adds labels with the placement group and its partitions to all instance types.
pub fn add_placement(catalogue: &mut Catalogue, class: &ResolvedClass) {
    let Some(group) = &class.placement_group else { return };
    for kind in &mut catalogue.types {
        kind.labels.insert(label::PLACEMENT_GROUP_ID.to_owned(), vec![group.id.clone()]);
        if group.partitions > 0 {
            let partitions = (1..=group.partitions).map(|number| number.to_string()).collect();
            kind.labels.insert(label::PLACEMENT_GROUP_PARTITION.to_owned(), partitions);
        }
    }
}
