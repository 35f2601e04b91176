//! Faults and the objects that they affect.

use cloud::fake::Pool;
use planner::CapacityType;

use crate::clock::{MINUTE, SECOND};
use crate::dice::Dice;
use crate::market::Market;
use crate::stage::panics::{self, Target};

/// Percentage of the faults that concern the controller's process or a node, among all kinds.
const NEW: u32 = 30;

/// Kinds of faults that are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kinds {
    /// Faults of EC2, the API server and the cluster, and crashes of the controller.
    #[default]
    Cluster,
    /// Also panics, stopped watches, pauses and lost connections of the leader, and nodes with false objects.
    All,
}

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
    /// Panic of a task of the leader.
    Panic(Target),
    /// The same panic as a bug of the controller, which must fail the simulation. Never drawn.
    Bug(Target),
    /// Watch of a kind without events and bookmarks, with its duration in milliseconds. An even number resumes the watch at the
    /// end, an odd one begins it again with a list.
    StoppedWatch(usize, i64),
    /// Pause of the leader's process, with its duration in milliseconds.
    Pause(i64),
    /// Loss of the leader's connections to the API server, with its duration in milliseconds.
    CutOff(i64),
    /// Node whose programs write false objects, until its instance is terminated after so many milliseconds.
    FalseNode(usize, i64),
}

/// End of a fault with a duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The watch of a kind in a process continues, or begins again with a list.
    Watch(usize, &'static str, bool),
    /// The connections of a process are back.
    Connections(usize),
    /// An operator ends the instance of a node with false objects.
    FalseNode(String),
}

/// Draws one fault.
pub fn draw(dice: &mut Dice, kinds: Kinds) -> Fault {
    if kinds == Kinds::All && dice.chance(NEW) {
        return draw_new(dice);
    }
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

/// Draws a fault of the controller's process or of a node.
fn draw_new(dice: &mut Dice) -> Fault {
    let target = usize::try_from(dice.between(0, 1_000_000)).unwrap_or_default();
    match dice.between(0, 99) {
        0..=34 => Fault::Panic(panics::draw(dice)),
        35..=54 => Fault::StoppedWatch(target, dice.between(30, 480) * SECOND),
        55..=69 => Fault::Pause(dice.between(1, 40) * SECOND),
        70..=84 => Fault::CutOff(dice.between(1, 40) * SECOND),
        _ => Fault::FalseNode(target, dice.between(10, 30) * MINUTE),
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
