//! The same hours with two values of `kerf.sh/utilization`: savings of lowered requests, without any breach.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::ops::RangeInclusive;

use day::app::App;
use day::clock::{HOUR, MINUTE, START};
use day::faults::Kinds;
use day::setup::Setup;
use day::simulation::Simulation;
use day::trace::{self, Event};
use planner::Size;

const HOURS: trace::Size = trace::Size { services: 12, jobs: 2, faults: 8, kinds: Kinds::Cluster, from: 12, hours: 3 };
/// Number of simulated seeds, unless `KERF_DAY_SEEDS` has another one.
const SEEDS: u64 = 1;

fn seeds() -> RangeInclusive<u64> {
    1..=std::env::var("KERF_DAY_SEEDS").map_or(SEEDS, |text| text.parse().unwrap())
}

fn played(utilization: &'static str, seed: u64) -> Simulation {
    let mut simulation = Simulation::new(&Setup { seed, utilization, ..Setup::default() }).unwrap();
    trace::day(seed, HOURS, START).into_iter().for_each(|(at, event)| simulation.at(at, event));
    simulation.run(START + HOURS.hours * HOUR);
    simulation
}

/// Returns the cost in dollars, and how often requests were lowered and raised.
fn sum(utilization: &'static str) -> (f64, usize, usize) {
    let mut sum = (0.0, 0, 0);
    for seed in seeds() {
        let simulation = played(utilization, seed);
        let (record, breaches) = (&simulation.record, &simulation.audit.breaches);
        println!(
            "seed {seed}, {utilization}: {:.2} $, {} moves, {} pods evicted, {:?}, longest wait {} s",
            record.spending.dollars(),
            record.moves.len(),
            simulation.cluster_state.evicted,
            (record.lowered, record.raised),
            simulation.audit.longest_wait / 1000,
        );
        assert!(breaches.is_empty(), "seed {seed}, {utilization}: {breaches:#?}");
        assert_eq!(record.refused, 0, "seed {seed}, {utilization}: {:?}", simulation.audit.evidence.map(|it| it.0));
        sum = (sum.0 + record.spending.dollars(), sum.1 + record.lowered, sum.2 + record.raised);
    }
    sum
}

#[test]
fn pack_saves_money_and_raises_requests_again() {
    let (observe, ..) = sum("observe");
    let (pack, lowered, raised) = sum("pack");
    println!("observe {observe:.2} $, pack {pack:.2} $, {lowered} requests lowered, {raised} raised");
    assert!(lowered > 0 && raised > 0);
    assert!(pack < observe, "what is lowered saves nothing");
}

#[test]
fn audit_reports_a_breach_when_requests_are_not_permitted() {
    let there_is_none = Size { cpu: 1_000_000, memory: 1 << 30 };
    for (asks, expected) in [(Size { cpu: 100, memory: 1 << 30 }, "requests Size"), (there_is_none, " keeps Size")] {
        let mut simulation = Simulation::new(&Setup { duds: 0, ..Setup::default() }).unwrap();
        simulation.at(START, Event::Come(App { name: "web".to_owned(), wanted: 4, ..App::default() }));
        simulation.run(START + 10 * MINUTE);
        assert_eq!(simulation.audit.breaches, []);
        let pod = simulation.cluster_state.pods.keys().next().unwrap().clone();
        simulation.resize(&pod, asks);
        simulation.run(START + 11 * MINUTE);
        assert_eq!(simulation.cluster_state.pods[&pod].kept == asks, asks != there_is_none);
        let (_, breach) = simulation.audit.breaches.first().unwrap();
        assert!(breach.contains(expected), "{breach}");
    }
}
