//! The same hours with each `kerf.sh/utilization`: what lowered requests save, and that nothing is broken for it.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::ops::RangeInclusive;

use day::clock::{HOUR, START};
use day::setup::Setup;
use day::simulation::Simulation;
use day::trace::{Size, day as trace};

const SIZE: Size = Size { services: 16, jobs: 4, faults: 24, from: 12, hours: 4 };
/// So many seeds are played, unless `KERF_DAY_SEEDS` says otherwise.
const SEEDS: u64 = 2;

fn seeds() -> RangeInclusive<u64> {
    1..=std::env::var("KERF_DAY_SEEDS").map_or(SEEDS, |text| text.parse().unwrap())
}

fn played(utilization: &'static str, seed: u64) -> Simulation {
    let mut simulation = Simulation::new(&Setup { seed, utilization, ..Setup::default() }).unwrap();
    trace(seed, SIZE, START).into_iter().for_each(|(at, event)| simulation.at(at, event));
    simulation.run(START + SIZE.hours * HOUR).unwrap();
    simulation
}

/// Dollars, and how often requests went down and up.
fn sum(utilization: &'static str) -> (f64, usize, usize) {
    let mut sum = (0.0, 0, 0);
    for seed in seeds() {
        let simulation = played(utilization, seed);
        let (record, breaches) = (&simulation.record, &simulation.audit.breaches);
        println!(
            "seed {seed}, {utilization}: {:.2} $, {} moves, {} pods evicted, {:?}, longest wait {} s",
            record.dollars(),
            record.moves.len(),
            simulation.world.evicted,
            record.resizes,
            simulation.audit.longest_wait / 1000,
        );
        assert!(breaches.is_empty(), "seed {seed}, {utilization}: {breaches:#?}");
        assert_eq!(record.refused, 0, "seed {seed}, {utilization}: {:?}", simulation.audit.evidence.map(|it| it.0));
        sum = (sum.0 + record.dollars(), sum.1 + record.lowered(), sum.2 + record.raised());
    }
    sum
}

#[test]
fn lowered_requests_save_money_and_are_given_back() {
    let (ignore, ..) = sum("ignore");
    let (observe, ..) = sum("observe");
    let (pack, lowered, raised) = sum("pack");
    println!(
        "ignore {ignore:.2} $, observe {observe:.2} $, pack {pack:.2} $, {lowered} requests lowered, {raised} raised"
    );
    assert!(lowered > 0 && raised > 0);
    assert!(pack <= observe);
}
