//! Capacity reservations with their available counts, and placement groups with their limits.

use super::state::{FakeState, Pool};
use crate::calls::{CapacityReservation, LaunchTemplateRequest};

/// Maximum number of running instances of a spread placement group in one zone.
const SPREAD: usize = 7;

/// EC2's code and message if the template's reservation or placement group refuses an instance.
pub(super) type Refusal = (&'static str, String);

/// Returns the available count of the reservation that the launch must use; `None` if the launch needs no reservation.
pub(super) fn reserved(
    state: &FakeState,
    template: &LaunchTemplateRequest,
    pool: &Pool,
) -> Result<Option<u32>, Refusal> {
    let Some(wanted) = &template.capacity_reservation else { return Ok(None) };
    if wanted.preference != "capacity-reservations-only" {
        return Ok(None);
    }
    let Some(id) = &wanted.id else {
        let open = state.reservations.iter().filter(|one| is_open(one, pool));
        return Ok(Some(open.map(|one| one.available).sum()));
    };
    let Some(reservation) = state.reservations.iter().find(|one| one.id == *id && one.state == "active") else {
        let message = format!("The capacity reservation ID '{id}' does not exist or is not active");
        return Err(("InvalidCapacityReservationId.NotFound", message));
    };
    if reservation.instance_type != pool.instance_type || reservation.zone != pool.zone {
        let message = format!("{id} is for {} in {}", reservation.instance_type, reservation.zone);
        return Err(("InvalidCapacityReservation.Mismatch", message));
    }
    if reservation.available == 0 {
        let message = "The requested reservation does not have sufficient compatible and available capacity".to_owned();
        return Err(("ReservationCapacityExceeded", message));
    }
    Ok(Some(reservation.available))
}

/// Returns how many more instances the template's placement group takes in the zone; `None` without a limit.
pub(super) fn grouped(state: &FakeState, template: &LaunchTemplateRequest, zone: &str) -> Result<Option<u32>, Refusal> {
    let Some(id) = &template.placement.group_id else { return Ok(None) };
    let Some(group) = state.placement_groups.iter().find(|group| group.id == *id) else {
        return Err(("InvalidPlacementGroup.Unknown", format!("The Placement Group '{id}' is unknown")));
    };
    if group.strategy != "spread" {
        return Ok(None);
    }
    let inside = state.machines.values().filter(|machine| {
        machine.template.placement.group_id.as_ref() == Some(id)
            && machine.instance.zone == zone
            && !machine.instance.is_ending()
    });
    let left = SPREAD.saturating_sub(inside.count());
    if left == 0 {
        let message = format!("No capacity: a spread placement group takes {SPREAD} running instances a zone");
        return Err(("InsufficientInstanceCapacity", message));
    }
    Ok(u32::try_from(left).ok())
}

/// Returns the partition of an instance: the template's, or else the next one if its group has partitions.
pub(super) fn partition(state: &FakeState, template: &LaunchTemplateRequest) -> Option<u32> {
    let id = template.placement.group_id.as_ref()?;
    let partitions = state.placement_groups.iter().find(|group| group.id == *id)?.partitions;
    let next = || u32::try_from(state.made % u64::from(partitions)).ok().map(|number| number + 1);
    template.placement.partition.or_else(|| if partitions > 0 { next() } else { None })
}

/// Takes one instance from the matching reservation, if there is one, and returns its id. The match is the reservation that the
/// launch names, or an open one that fits an on-demand launch whose preference is not `none`.
pub(super) fn occupy(state: &mut FakeState, template: &LaunchTemplateRequest, pool: &Pool) -> Option<String> {
    let wanted = template.capacity_reservation.as_ref();
    let preference = wanted.map_or("open", |wanted| wanted.preference.as_str());
    let named = wanted.and_then(|wanted| wanted.id.as_deref());
    if preference == "none" || pool.capacity_type == "spot" {
        return None;
    }
    let fits = |one: &&mut CapacityReservation| match named {
        Some(id) => one.id == id,
        None => is_open(one, pool),
    };
    let reservation = state.reservations.iter_mut().filter(fits).find(|one| one.available > 0)?;
    reservation.available -= 1;
    Some(reservation.id.clone())
}

fn is_open(one: &CapacityReservation, pool: &Pool) -> bool {
    one.state == "active"
        && one.match_criteria == "open"
        && one.instance_type == pool.instance_type
        && one.zone == pool.zone
}
