//! The same hours with and without a limit of the cost of all nodes. Prices do not change in these hours, so the limit holds at every
//! moment: while nodes start, while they are replaced, after interruptions, and after crashes of the controller.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use day::clock::{HOUR, START};
use day::faults::Kinds;
use day::setup::{Replicas, Setup};
use day::simulation::Simulation;
use day::trace;
use planner::MicroDollars;

const HOURS: trace::Size = trace::Size { services: 12, jobs: 2, faults: 12, kinds: Kinds::Cluster, from: 12, hours: 2 };

fn played(seed: u64, cost_limit: Option<MicroDollars>) -> Simulation {
    let setup = Setup { seed, cost_limit, replicas: Replicas::Elected, ..Setup::default() };
    let mut simulation = Simulation::new(&setup).unwrap();
    trace::day(seed, HOURS, START).into_iter().for_each(|(at, event)| simulation.at(at, event));
    simulation.run(START + HOURS.hours * HOUR);
    simulation
}

#[test]
fn cost_exceeds_its_limit_at_no_moment() {
    let seed = 1;
    let free = played(seed, None).record;
    let limit = MicroDollars(free.highest_price.0 * 8 / 10);
    let limited = played(seed, Some(limit)).record;
    println!(
        "seed {seed}: {:.2} $ and at most {:.2} $/h without a limit; {:.2} $ and at most {:.2} $/h with {:.2} $/h",
        free.spending.dollars(),
        free.highest_price.0 as f64 / 1e6,
        limited.spending.dollars(),
        limited.highest_price.0 as f64 / 1e6,
        limit.0 as f64 / 1e6,
    );
    assert!(limited.highest_price <= limit, "{:?} of {limit:?}", limited.highest_price);
    assert!(limited.highest_price.0 * 10 >= limit.0 * 8, "{:?} of {limit:?} was used", limited.highest_price);
    assert_eq!(limited.refused, 0, "seed {seed}: plans with findings");
}
