//! A part of the simulated day with everything that goes wrong on it, and what must come to rest; `make day` plays the whole.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

use std::path::Path;
use std::{env, fs};

use day::app::App;
use day::clock::{HOUR, MINUTE, Moment, START};
use day::setup::Setup;
use day::simulation::Simulation;
use day::trace::{Event, Size, day as trace};
use day::verdict;

/// A pod that came just before the end waits for its machine, as long as that takes to come up.
const BOOTS: Moment = 2 * MINUTE;

/// What the environment says, else the sample's size.
fn number(name: &str, usual: i64) -> i64 {
    env::var(name).ok().map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn count(name: &str, usual: i64) -> usize {
    usize::try_from(number(name, usual)).unwrap_or_default()
}

fn sample() -> Size {
    Size {
        services: count("KERF_DAY_SERVICES", 16),
        jobs: 6,
        faults: count("KERF_DAY_FAULTS", 60),
        from: number("KERF_DAY_FROM", 10),
        hours: number("KERF_DAY_HOURS", 1),
    }
}

fn played(setup: &Setup, size: Size) -> Simulation {
    let mut simulation = Simulation::new(setup).unwrap();
    for (at, event) in trace(setup.seed, size, START) {
        simulation.at(at, event);
    }
    simulation.run(START + size.hours * HOUR).unwrap();
    simulation
}

fn assert_kept(simulation: &Simulation) {
    let breaches: Vec<String> =
        simulation.audit.breaches.iter().map(|(at, what)| format!("{} s: {what}", (at - START) / 1000)).collect();
    assert!(breaches.is_empty(), "what must hold at every moment was broken:\n  {}", breaches.join("\n  "));
    let (record, evidence) = (&simulation.record, simulation.audit.evidence.as_ref());
    if let Some((finding, snapshot)) = evidence {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("refused.json");
        fs::write(&path, snapshot).unwrap();
        println!("{} plans were refused, the first by {finding}: {}", record.refused, path.display());
    }
    assert_eq!(record.refused, 0, "of {} plans", record.plans);
}

#[test]
fn nothing_is_leaked_doubled_or_broken_on_a_day_full_of_faults() {
    let seed = u64::try_from(number("KERF_DAY_SEED", 1)).unwrap();
    let usual = Setup::default();
    let utilization = env::var("KERF_DAY_UTILIZATION").map_or(usual.utilization, |text| text.leak());
    let setup = Setup { seed, utilization, ..usual };
    let simulation = played(&setup, sample());
    let record = &simulation.record;
    println!("{}", verdict::figures(&simulation));
    let pools = |pool: &str| simulation.world.claims.keys().filter(|claim| claim.starts_with(pool)).count();
    println!("general {}, steady {}", pools("general"), pools("steady"));
    assert_kept(&simulation);
    assert_eq!(record.faults, sample().faults);
    assert!(record.notices > 0 && record.deaths > 0, "a day without notices and deaths proves little");
    assert!(record.moves.iter().any(|moved| moved.done), "nothing was given back");
    let waiting: Vec<&String> = simulation.waits_longer_than(BOOTS).collect();
    assert!(waiting.is_empty(), "half an hour after the last fault every pod has a place, but for {waiting:?}");
}

#[test]
fn the_same_seed_is_the_same_hour_to_the_last_move() {
    let size = Size { services: 6, jobs: 10, faults: 12, from: 12, hours: 1 };
    let setup = Setup { seed: 7, ..Setup::default() };
    let (one, other) = (played(&setup, size), played(&setup, size));
    assert!(one.record.plans > 100 && one.record == other.record);
    assert_eq!(one.audit.steps, other.audit.steps);
}

#[test]
fn a_cluster_that_nobody_disturbs_comes_to_rest() {
    for seed in 1..3 {
        let setup = Setup { seed, duds: 0, ..Setup::default() };
        let mut simulation = Simulation::new(&setup).unwrap();
        let size = Size { services: 10, jobs: 0, faults: 0, from: 14, hours: 1 };
        for (_, event) in trace(seed, size, START).into_iter().filter(|(at, _)| *at == START) {
            let Event::Come(app) = event else { panic!("services come first: {event:?}") };
            // Who rests may go hours later, and rightly so.
            simulation.at(START, Event::Come(App { rests: None, ..app }));
        }
        let changed = START + 15 * MINUTE;
        simulation.run(changed).unwrap();
        let before = simulation.world.market.cost();
        let half = simulation.world.apps.values().map(|app| (app.name.clone(), app.wanted.div_ceil(2)));
        half.collect::<Vec<_>>()
            .into_iter()
            .for_each(|(app, wanted)| simulation.at(changed, Event::Scale(app, wanted)));
        simulation.run(START + 100 * MINUTE).unwrap();
        assert!(simulation.world.market.cost() < before, "seed {seed}: half of the pods left for nothing");
        let begun = |moved: &&day::record::Moved| moved.begun > START + 70 * MINUTE;
        let late = simulation.record.moves.iter().filter(begun).count();
        assert_eq!(late, 0, "seed {seed}: moves go on though nothing changes");
        assert_kept(&simulation);
    }
}
