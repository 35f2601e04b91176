//! Convergence of an undisturbed cluster: after a change, commands follow each other for some minutes, and then none begins
//! until the next change.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

use std::collections::BTreeSet;

use day::app::App;
use day::clock::{HOUR, MINUTE, Moment, START};
use day::dice::Dice;
use day::faults::Kinds;
use day::setup::Setup;
use day::simulation::Simulation;
use day::trace::{Event, Size, day as trace};
use day::verdict;

/// Time after which no command begins any more, for a change of half of all pods.
const RESTS: Moment = 20 * MINUTE;
/// Number of simulated hours.
const HOURS: i64 = 6;

/// Creates a cluster without faults and expiration, with the services at the start of a day. Returns the number of replicas of
/// each service.
fn undisturbed(seed: u64, services: usize) -> (Simulation, Vec<(String, usize)>) {
    let mut setup = Setup { seed, duds: 0, ..Setup::default() };
    setup.pools.iter_mut().for_each(|pool| pool.expires = None);
    let mut simulation = Simulation::new(&setup).unwrap();
    let size = Size { services, jobs: 0, faults: 0, kinds: Kinds::Cluster, from: 14, hours: 1 };
    let mut wanted = Vec::new();
    for (_, event) in trace(seed, size, START).into_iter().filter(|(at, _)| *at == START) {
        let Event::Come(app) = event else { panic!("services come first: {event:?}") };
        wanted.push((app.name.clone(), app.wanted));
        // A pod with `kerf.sh/disrupt-at-most-once-per` may be moved hours later, which is correct.
        simulation.at(START, Event::Come(App { rests: None, ..app }));
    }
    (simulation, wanted)
}

#[test]
fn simulation_stops_moving_when_the_cluster_is_undisturbed() {
    for seed in 1..3 {
        let (mut simulation, services) = undisturbed(seed, 10);
        let changed = START + 15 * MINUTE;
        simulation.run(changed);
        let before = simulation.cluster_state.market.cost();
        services.into_iter().for_each(|(app, wanted)| simulation.at(changed, Event::Scale(app, wanted.div_ceil(2))));
        simulation.run(START + 100 * MINUTE);
        assert!(simulation.cluster_state.market.cost() < before, "seed {seed}: half of the pods left for nothing");
        let late = simulation.record.moves.iter().filter(|moved| moved.begun > changed + RESTS).count();
        assert_eq!(late, 0, "seed {seed}: moves go on though nothing changes");
        assert_eq!(verdict::broken(&simulation), [""; 0], "seed {seed}");
    }
}

#[test]
fn simulation_does_not_oscillate_when_demand_changes_hourly() {
    let (mut simulation, services) = undisturbed(1, 8);
    let machines =
        |simulation: &Simulation| simulation.cluster_state.market.instances.keys().cloned().collect::<BTreeSet<_>>();
    let mut dice = Dice::new(1);
    for hour in 1..HOURS {
        for (name, wanted) in services.iter().filter(|_| dice.chance(50)).collect::<Vec<_>>() {
            simulation.at(START + hour * HOUR, Event::Scale(name.clone(), dice.between(0, 2 * wanted)));
        }
        simulation.run(START + hour * HOUR + RESTS);
        let (fleet, moves) = (machines(&simulation), simulation.record.moves.len());
        simulation.run(START + (hour + 1) * HOUR - 1);
        assert_eq!(machines(&simulation), fleet, "hour {hour}: the fleet changes though nothing else does");
        assert_eq!(simulation.record.moves.len(), moves, "hour {hour}: moves go on though nothing changes");
    }
    println!("{}", verdict::figures(&simulation));
    assert!(simulation.record.moves.len() > 10, "where little moves rest proves little");
    assert_eq!(verdict::broken(&simulation), [""; 0]);
}
