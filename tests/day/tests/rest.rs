//! A cluster comes to rest by itself: after a change moves follow each other for some minutes, and then nothing moves until the next one.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

use std::collections::BTreeSet;

use day::app::App;
use day::clock::{HOUR, MINUTE, Moment, START};
use day::dice::Dice;
use day::setup::Setup;
use day::simulation::Simulation;
use day::trace::{Event, Size, day as trace};
use day::verdict;

/// So long after a change that touched half of all pods nothing moves any more.
const RESTS: Moment = 20 * MINUTE;

/// A cluster on which nothing goes wrong and nothing gets old, with the services that a day begins with. Returns how many pods each wants.
fn undisturbed(seed: u64, services: usize) -> (Simulation, Vec<(String, usize)>) {
    let mut setup = Setup { seed, duds: 0, ..Setup::default() };
    setup.pools.iter_mut().for_each(|pool| pool.expires = None);
    let mut simulation = Simulation::new(&setup).unwrap();
    let size = Size { services, jobs: 0, faults: 0, from: 14, hours: 1 };
    let mut wanted = Vec::new();
    for (_, event) in trace(seed, size, START).into_iter().filter(|(at, _)| *at == START) {
        let Event::Come(app) = event else { panic!("services come first: {event:?}") };
        wanted.push((app.name.clone(), app.wanted));
        // Who rests may go hours later, and rightly so.
        simulation.at(START, Event::Come(App { rests: None, ..app }));
    }
    (simulation, wanted)
}

#[test]
fn a_cluster_that_nobody_disturbs_comes_to_rest() {
    for seed in 1..3 {
        let (mut simulation, services) = undisturbed(seed, 10);
        let changed = START + 15 * MINUTE;
        simulation.run(changed).unwrap();
        let before = simulation.world.market.cost();
        services.into_iter().for_each(|(app, wanted)| simulation.at(changed, Event::Scale(app, wanted.div_ceil(2))));
        simulation.run(START + 100 * MINUTE).unwrap();
        assert!(simulation.world.market.cost() < before, "seed {seed}: half of the pods left for nothing");
        let late = simulation.record.moves.iter().filter(|moved| moved.begun > changed + RESTS).count();
        assert_eq!(late, 0, "seed {seed}: moves go on though nothing changes");
        assert_eq!(verdict::broken(&simulation), [""; 0], "seed {seed}");
    }
}

#[test]
fn nothing_swings_on_a_day_that_changes_on_the_hour() {
    let (mut simulation, services) = undisturbed(1, 8);
    let machines = |simulation: &Simulation| simulation.world.market.instances.keys().cloned().collect::<BTreeSet<_>>();
    let mut dice = Dice::new(1);
    for hour in 1..24 {
        for (name, wanted) in services.iter().filter(|_| dice.chance(50)).collect::<Vec<_>>() {
            simulation.at(START + hour * HOUR, Event::Scale(name.clone(), dice.between(0, 2 * wanted)));
        }
        simulation.run(START + hour * HOUR + RESTS).unwrap();
        let (fleet, moves) = (machines(&simulation), simulation.record.moves.len());
        simulation.run(START + (hour + 1) * HOUR - 1).unwrap();
        assert_eq!(machines(&simulation), fleet, "hour {hour}: the fleet changes though nothing else does");
        assert_eq!(simulation.record.moves.len(), moves, "hour {hour}: moves go on though nothing changes");
    }
    println!("{}", verdict::figures(&simulation));
    assert!(simulation.record.moves.len() > 50, "where little moves rest proves little");
    assert_eq!(verdict::broken(&simulation), [""; 0]);
}
