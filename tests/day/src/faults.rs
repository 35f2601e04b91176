//! Faults and the objects that they affect.

use cloud::fake::Pool;
use planner::CapacityType;

use crate::clock::{MINUTE, SECOND};
use crate::dice::Dice;
use crate::market::Market;

/// One fault. A number selects the affected object among those that exist at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Spot interruption with a notice of two minutes.
    Notice(usize),
    /// Loss of an instance without a notice.
    Loss(usize),
    /// Insufficient capacity for some offerings, with its duration in milliseconds.
    Dry(usize, i64),
    /// Crash of the controller after so many more writes.
    ControllerCrash(usize),
    /// API server outage, with its duration in milliseconds.
    Stall(i64),
    /// Crash of an instance's agent, with the time to its restart in milliseconds.
    Silence(usize, i64),
    /// Crash and removal of a pod.
    Crash(usize),
}

/// Draws one fault.
pub fn draw(dice: &mut Dice) -> Fault {
    let target = usize::try_from(dice.between(0, 1_000_000)).unwrap_or_default();
    match dice.between(0, 99) {
        0..=24 => Fault::Notice(target),
        25..=29 => Fault::Loss(target),
        30..=54 => Fault::Dry(target, dice.between(2, 20) * MINUTE),
        55..=69 => Fault::ControllerCrash(usize::try_from(dice.between(0, 30)).unwrap_or_default()),
        70..=79 => Fault::Stall(dice.between(1, 45) * SECOND),
        80..=89 => Fault::Silence(target, dice.between(10, 300) * SECOND),
        _ => Fault::Crash(target),
    }
}

/// Returns the offerings that run out together: spot of one type in all zones, or one type in one zone in both capacity types.
#[must_use]
pub fn sold_out(market: &Market, target: usize) -> Vec<Pool> {
    let running: Vec<&str> = market.instances.values().map(|instance| instance.kind.name.as_str()).collect();
    let types: Vec<&str> = market.prices.keys().map(|pool| pool.instance_type.as_str()).collect();
    let pick = |all: &[&str]| all.get(target % all.len().max(1)).map(|name| (*name).to_owned());
    let Some(kind) = pick(&running).or_else(|| pick(&types)) else { return Vec::new() };
    let own: Vec<&Pool> = market.prices.keys().filter(|pool| pool.instance_type == kind).collect();
    let zone = own.get(target % own.len().max(1)).map(|pool| &pool.zone);
    let meant = own.iter().filter(|pool| match target % 2 {
        0 => pool.capacity_type == CapacityType::Spot.as_str(),
        _ => Some(&pool.zone) == zone,
    });
    meant.map(|pool| (*pool).clone()).collect()
}
