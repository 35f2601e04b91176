//! The simulated day on the command line: its figures, its cost over the hourly lower bound, and its pictures.

use std::fs;
use std::path::Path;

use anyhow::Context;
use day::clock::{HOUR, START};
use day::picture;
use day::setup::Setup;
use day::simulation::Simulation;
use day::trace::{Event, Size, day};
use day::verdict;
use planner::{Pod, Snapshot};

use crate::bound;

/// Rounds of the bound's search for one hour: a day has many, and the first rounds find nearly all of it.
const ROUNDS: usize = 25;

/// The day as `make day` plays it.
pub const SIZE: Size = Size { services: 20, jobs: 12, faults: 1_000, from: 0, hours: 24 };

/// The same day on which nothing goes wrong.
pub const CALM: Size = Size { faults: 0, ..SIZE };

/// A day's cost from its second hour on, in dollars: the first one only fills an empty cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounded {
    /// What the fleets cost.
    pub cost: f64,
    /// What any fleets for the pods that were there at the hours' beginnings cost at least.
    pub least: f64,
}

/// Plays a day, hour by hour. Where the bound is asked for, the day's cost stands beside it.
///
/// # Errors
/// When something cannot be made, or what must hold at every moment was broken.
pub fn play(setup: &Setup, size: Size, bounded: bool) -> anyhow::Result<(Simulation, Option<Bounded>)> {
    let mut simulation = Simulation::new(setup)?;
    day(setup.seed, size, START).into_iter().for_each(|(at, event): (i64, Event)| simulation.at(at, event));
    let (mut least, mut first) = (0.0, 0.0);
    for hour in 1..=size.hours {
        if bounded && hour > 1 {
            let built = simulation.controller.built(&simulation.world);
            let market = bound::Market::of(&unbound(&built.snapshot))?;
            least += bound::within(&market, ROUNDS)?.dollars;
        }
        simulation.run(START + hour * HOUR)?;
        if hour == 1 {
            first = simulation.record.dollars();
        }
    }
    let broken = verdict::broken(&simulation);
    anyhow::ensure!(broken.is_empty(), "the day broke what must hold:\n  {}", broken.join("\n  "));
    let cost = simulation.record.dollars() - first;
    Ok((simulation, bounded.then_some(Bounded { cost, least })))
}

/// The same pods without any node: what a fleet would be bought for if nothing were there.
fn unbound(snapshot: &Snapshot) -> Snapshot {
    let mut bare = snapshot.clone();
    let nodes = std::mem::take(&mut bare.nodes);
    bare.pods.retain(|pod| pod.leaving_node.is_none());
    for pod in nodes.iter().flat_map(|node| &node.pods).filter(|pod| pod.reschedulable && !pod.ending) {
        let known = bare.shapes.iter().position(|shape| **shape == *pod.shape);
        let shape = known.unwrap_or_else(|| {
            bare.shapes.push(std::sync::Arc::clone(&pod.shape));
            bare.shapes.len() - 1
        });
        bare.pods.push(Pod { uid: pod.uid.clone(), name: pod.name.clone(), shape, ..Pod::default() });
    }
    bare
}

/// What a day came to, in a few lines.
#[must_use]
pub fn told(simulation: &Simulation, bounded: Option<Bounded>, size: Size) -> String {
    let share = bounded.map(|it| {
        let over = it.cost / it.least;
        format!(
            "\nfrom the second hour on {:.2} $, {over:.4} times the hourly lower bound of {:.2} $",
            it.cost, it.least
        )
    });
    let share = share.unwrap_or_default();
    format!("{} hours, {}{share}", size.hours, verdict::figures(simulation))
}

/// Writes the pictures of a day into a folder.
///
/// # Errors
/// When a file cannot be written.
pub fn draw(simulation: &Simulation, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for (name, picture) in
        [("fleet.svg", picture::fleet(&simulation.record)), ("moves.svg", picture::moves(&simulation.record))]
    {
        let path = folder.join(name);
        fs::write(&path, picture).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
