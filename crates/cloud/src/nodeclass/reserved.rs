//! Capacity reservations and the placement group of an EC2NodeClass.

use api::nodeclass::{self, EC2NodeClassSpec};
use api::status::Time;
use api::{condition, reason};
use jiff::{SignedDuration, Timestamp};

use super::Finding;
use crate::calls::{CapacityReservation, CloudError, ErrorKind, PlacementGroup};

/// Time before the end of a capacity block in which nothing is launched into it. EC2 terminates its instances 30 minutes before
/// the end; Kerf stops launching 10 minutes earlier.
const EXPIRING: SignedDuration = SignedDuration::from_mins(40);

/// State of a reservation that launches may use.
const ACTIVE: &str = "active";
/// State of a capacity block that ends soon.
const EXPIRES: &str = "expiring";

/// Returns the active reservations that have not ended, by id.
pub(super) fn alive(found: Vec<CapacityReservation>, now: Timestamp) -> Vec<CapacityReservation> {
    let ended = |one: &CapacityReservation| ends(one).is_some_and(|end| end <= now);
    let alive = found.into_iter().filter(|one| one.state == ACTIVE && !ended(one)).collect();
    super::unique(alive, |one| one.id.clone())
}

fn ends(reservation: &CapacityReservation) -> Option<Timestamp> {
    reservation.ends.as_deref()?.parse().ok()
}

/// Reports whether a capacity block ends soon, so that nothing is launched into it.
#[must_use]
pub fn is_expiring(reservation: &CapacityReservation, now: Timestamp) -> bool {
    reservation.capacity_block && ends(reservation).is_some_and(|end| end.duration_since(now) <= EXPIRING)
}

/// Returns a reservation for the status of the EC2NodeClass.
pub(super) fn shown(reservation: &CapacityReservation, now: Timestamp) -> nodeclass::CapacityReservation {
    nodeclass::CapacityReservation {
        availability_zone: reservation.zone.clone(),
        end_time: ends(reservation).map(Time),
        id: reservation.id.clone(),
        instance_match_criteria: reservation.match_criteria.clone(),
        instance_type: reservation.instance_type.clone(),
        owner_id: reservation.owner.clone(),
        reservation_type: if reservation.capacity_block { "capacity-block" } else { "default" }.to_owned(),
        interruptible: reservation.interruptible,
        state: if is_expiring(reservation, now) { EXPIRES } else { ACTIVE }.to_owned(),
    }
}

/// Returns the condition of the selected placement group.
pub(super) fn group_finding(spec: &EC2NodeClassSpec, group: Option<&PlacementGroup>) -> Finding {
    let condition = condition::PLACEMENT_GROUP_READY;
    let Some(selector) = &spec.placement_group_selector else { return Finding::good(condition) };
    let named = selector.id.as_deref().map(|id| format!("id {id}"));
    let named = named.or_else(|| selector.name.as_deref().map(|name| format!("name {name}"))).unwrap_or_default();
    let problem = match group {
        None => {
            format!("no placement group matches placementGroupSelector ({named}); create one, or correct the selector")
        }
        Some(group) if group.state != "available" => {
            format!(
                "placement group {} ({named}) is {}; wait until it is available, or select another",
                group.id, group.state
            )
        }
        Some(_) => return Finding::good(condition),
    };
    Finding::bad(condition, reason::PLACEMENT_GROUP_NOT_FOUND, problem)
}

/// Returns the condition after a failed query for the placement group; `None` if a retry soon may help.
pub(super) fn group_failed(error: &CloudError) -> Option<Finding> {
    let refused = matches!(error.kind, ErrorKind::Unauthorized | ErrorKind::Invalid);
    let message = || {
        format!(
            "placementGroupSelector: {error}; allow the controller's role to describe placement groups, or correct \
             the selector"
        )
    };
    refused
        .then(|| Finding::bad(condition::PLACEMENT_GROUP_READY, reason::PLACEMENT_GROUP_RESOLUTION_FAILED, message()))
}
