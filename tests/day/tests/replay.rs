//! Replay of a day that the whole controller has played: the replay must cost and do about the same.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use day::clock::{HOUR, START, timestamp};
use day::faults::Kinds;
use day::setup::Setup;
use day::simulation::Simulation;
use day::trace::{Event, Size, day as trace};
use planner::Catalogue;
use replay::{Figures, History, Market, Pace, Replay, Rules};

/// Plays hours of a working day without faults, and returns its history with the catalogues.
fn played(seed: u64, services: usize, hours: i64) -> (History, BTreeMap<String, Arc<Catalogue>>) {
    let setup = Setup { seed, duds: 0, utilization: "ignore", ..Setup::default() };
    let mut simulation = Simulation::new(&setup).unwrap();
    simulation.record_history();
    let size = Size { services, jobs: 6, faults: 0, kinds: Kinds::Cluster, from: 10, hours };
    // A replay has no new images.
    for (at, event) in trace(seed, size, START).into_iter().filter(|(_, event)| !matches!(event, Event::Drift(_))) {
        simulation.at(at, event);
    }
    simulation.run(START + hours * HOUR);
    simulation.recorded_history().unwrap()
}

fn replayed(history: &History, market: &Market, rules: Rules) -> Figures {
    let settings = snapshot::Settings::default();
    Replay { history, market, settings, rules, pace: Pace::of(history) }.run(&mut |_| {})
}

/// Returns the difference in percent of the first figure.
fn difference(recorded: i64, replayed: i64) -> i64 {
    100 * (replayed - recorded) / recorded.max(1)
}

#[test]
fn replay_of_a_played_day_costs_about_the_same() {
    for seed in 1..4 {
        let (history, catalogues) = played(seed, 12, 2);
        let market = Market { catalogues: vec![(timestamp(START), catalogues)] };
        let recorded = Figures::recorded(&history, &market);
        let replayed = replayed(&history, &market, Rules::Kerf);
        let of = |figures: &Figures| Figures { points: Vec::new(), ..figures.clone() };
        let both = format!("seed {seed}:\nrecorded {:?}\nreplayed {:?}", of(&recorded), of(&replayed));
        println!("{both}");
        let cost = difference(recorded.cost, replayed.cost);
        assert!((-10..=10).contains(&cost), "the cost differs by {cost} %, {both}");
        assert!((recorded.wait_p99 - replayed.wait_p99).abs() <= 10_000, "waits differ, {both}");
        assert!(replayed.evicted > 0 && replayed.evicted <= 2 * recorded.evicted, "evictions differ, {both}");
        assert!(replayed.pending <= recorded.pending + 2, "pods have no node, {both}");
    }
}
