//! Part of the simulated day with all its faults; every pod is bound at the end. `make day` runs the whole day.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed assumption should fail the test")]

use std::path::Path;
use std::{env, fs};

use day::app::App;
use day::clock::{HOUR, MINUTE, START};
use day::faults::Kinds;
use day::setup::{Replicas, Setup};
use day::simulation::Simulation;
use day::trace::{Event, Size, day as trace};
use day::verdict;
use planner::CommandReason;

/// Returns the number in an environment variable, or else the default of the sample.
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
        kinds: Kinds::All,
        from: number("KERF_DAY_FROM", 10),
        hours: number("KERF_DAY_HOURS", 1),
    }
}

fn played(setup: &Setup, size: Size) -> Simulation {
    let mut simulation = Simulation::new(setup).unwrap();
    for (at, event) in trace(setup.seed, size, START) {
        simulation.at(at, event);
    }
    simulation.run(START + size.hours * HOUR);
    simulation
}

/// Returns the default cluster, in which nodes also expire within the simulated hours.
fn usual(seed: u64, size: Size) -> Setup {
    let mut setup = Setup { seed, replicas: Replicas::Elected, ..Setup::default() };
    let ages = setup.pools.iter_mut().filter_map(|pool| pool.expires.as_mut());
    ages.for_each(|expires| *expires = (*expires).min(size.hours * HOUR / 4));
    setup
}

fn assert_kept(simulation: &Simulation) {
    if let Some((_, snapshot)) = simulation.audit.evidence.as_ref() {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("refused.json");
        fs::write(&path, snapshot).unwrap();
        println!("the first plan that was refused: {}", path.display());
    }
    let broken = verdict::broken(simulation);
    assert!(broken.is_empty(), "what must hold was broken:\n  {}", broken.join("\n  "));
}

/// Asserts that all invariants held, that all kinds of events happened, and that no pod is pending at the end.
fn assert_well(mut simulation: Simulation, faults: usize) {
    println!("{}", verdict::figures(&simulation));
    let left_over = verdict::left_over(&mut simulation);
    assert_kept(&simulation);
    assert_eq!(left_over, [""; 0], "they have no place in the end");
    let record = &simulation.record;
    assert_eq!(record.faults, faults);
    let ends = record.crashes + record.panicked + record.lost_leases;
    assert!(record.notices > 0 && ends > 0, "a day without notices and ends of the controller proves little");
    assert!(record.takeovers > 1 && record.stopped_watches > 0, "the other replica never leads, or all watches go on");
    assert!(record.false_nodes > 0 && !simulation.panics().is_empty(), "no false node, or no panic");
    for reason in [CommandReason::Underutilized, CommandReason::Drifted, CommandReason::Expired] {
        assert!(record.moves.iter().any(|moved| moved.done && moved.reason == reason), "no node went: {reason:?}");
    }
}

#[test]
fn simulation_keeps_invariants_when_a_day_has_many_faults() {
    let seed = u64::try_from(number("KERF_DAY_SEED", 1)).unwrap();
    let mut setup = usual(seed, sample());
    if let Ok(utilization) = env::var("KERF_DAY_UTILIZATION") {
        setup.utilization = utilization.leak();
    }
    assert_well(played(&setup, sample()), sample().faults);
}

/// The cause of a violation can only be found if the next run with the seed has it too.
#[test]
fn simulation_repeats_exactly_with_its_seed() {
    let size = Size { faults: 40, hours: 1, ..sample() };
    let [first, second] = [(), ()].map(|()| played(&usual(3, size), size));
    assert!(first.record.takeovers > 1 && first.record.notices > 0, "too few events to tell the runs apart");
    assert_eq!(first.record, second.record);
    let ends = [&first, &second].map(|it| (it.audit.steps, it.cluster_state.pods.keys().collect::<Vec<_>>()));
    assert_eq!(ends[0], ends[1]);
}

/// Once, the test ended with a pending pod that was created ten seconds before the end.
#[test]
fn simulation_keeps_invariants_when_the_day_is_larger() {
    let size = Size { services: 20, faults: 75, ..sample() };
    assert_well(played(&usual(7, size), size), 75);
}

#[test]
fn pods_get_another_node_when_an_instance_never_registers() {
    let mut simulation = Simulation::new(&Setup { duds: 100, ..Setup::default() }).unwrap();
    simulation.at(START, Event::Come(App { name: "web".to_owned(), wanted: 4, ..App::default() }));
    simulation.run(START + 10 * MINUTE);
    assert_eq!(simulation.waits_longer_than(5 * MINUTE).count(), 4);
    assert_eq!(verdict::left_over(&mut simulation), [""; 0]);
    assert_kept(&simulation);
}
