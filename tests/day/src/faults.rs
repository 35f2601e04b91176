//! What goes wrong, and to whom.

use planner::CapacityType;

use crate::clock::{MINUTE, SECOND};
use crate::dice::Dice;
use crate::market::{Market, Shelf, shelf};

/// Something that goes wrong. Numbers choose whom it meets among those who are there then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// EC2 takes a spot machine back in two minutes.
    Notice(usize),
    /// EC2 loses a machine without a word.
    Loss(usize),
    /// Some offerings are sold out for so many milliseconds.
    Dry(usize, i64),
    /// The controller dies after so many writes more.
    Death(usize),
    /// The API server answers nobody for so many milliseconds.
    Stall(i64),
    /// The agent of a machine dies, and is back after so many milliseconds.
    Silence(usize, i64),
    /// A pod crashes and is gone.
    Crash(usize),
}

/// One fault.
pub fn draw(dice: &mut Dice) -> Fault {
    let whom = usize::try_from(dice.between(0, 1_000_000)).unwrap_or_default();
    match dice.between(0, 99) {
        0..=24 => Fault::Notice(whom),
        25..=29 => Fault::Loss(whom),
        30..=54 => Fault::Dry(whom, dice.between(2, 20) * MINUTE),
        55..=69 => Fault::Death(usize::try_from(dice.between(0, 30)).unwrap_or_default()),
        70..=79 => Fault::Stall(dice.between(1, 45) * SECOND),
        80..=89 => Fault::Silence(whom, dice.between(10, 300) * SECOND),
        _ => Fault::Crash(whom),
    }
}

/// The offerings that are sold out together: spot of one type everywhere, or a type and both its prices in one zone.
#[must_use]
pub fn sold_out(market: &Market, whom: usize) -> Vec<Shelf> {
    let running: Vec<usize> = market.instances.values().map(|instance| instance.kind).collect();
    let types = &market.catalogue.types;
    let kind = running.get(whom % running.len().max(1)).copied().unwrap_or(whom % types.len().max(1));
    let Some(kind) = types.get(kind) else { return Vec::new() };
    let zone = kind.offerings.get(whom % kind.offerings.len().max(1)).map(|offering| &offering.zone);
    let meant = kind.offerings.iter().filter(|offering| match whom % 2 {
        0 => offering.capacity_type == CapacityType::Spot,
        _ => Some(&offering.zone) == zone,
    });
    meant.map(|offering| shelf(&kind.name, offering)).collect()
}
