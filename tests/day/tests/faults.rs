//! Faults of the controller's process, of its watches and of nodes: each of them has an effect, no invariant is violated, and a
//! wrong configuration or a real bug is found.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use day::app::App;
use day::clock::{MINUTE, Moment, SECOND, START};
use day::dice::Dice;
use day::faults::{Fault, Kinds, draw};
use day::setup::{Replicas, Setup};
use day::simulation::Simulation;
use day::stage::panics::{ACTIONS, Target};
use day::trace::Event;
use day::verdict;

/// Time until the cluster is quiet.
const QUIET: Moment = START + 10 * MINUTE;
/// Target of a stopped watch of pods, which continues at its end.
const PODS: usize = 0;
/// Target of a stopped watch of usage reports, which begins again with a list.
const USAGES: usize = 11;

/// Returns a simulation of two services whose nodes all register.
fn simulation(setup: Setup) -> Simulation {
    let mut simulation = Simulation::new(&Setup { duds: 0, ..setup }).unwrap();
    let apps = [
        App { name: "web".to_owned(), wanted: 12, apart: true, may_be_away: Some(2), ..App::default() },
        App { name: "api".to_owned(), wanted: 20, cpu: 1000, ..App::default() },
    ];
    apps.into_iter().for_each(|app| simulation.at(START, Event::Come(app)));
    simulation
}

fn elected() -> Setup {
    Setup { replicas: Replicas::Elected, ..Setup::default() }
}

fn scale(simulation: &mut Simulation, at: Moment, web: usize) {
    simulation.at(at, Event::Scale("web".to_owned(), web));
}

/// Asserts that a breach contains this text.
fn assert_found(simulation: &Simulation, text: &str) {
    let broken = verdict::broken(simulation);
    assert!(broken.iter().any(|breach| breach.contains(text)), "{text}: not in {broken:?}");
}

#[test]
fn draw_yields_each_kind_only_among_all_kinds() {
    let kinds = |kinds| {
        let mut dice = Dice::new(1);
        let name = |fault: Fault| format!("{fault:?}").split('(').next().unwrap().to_owned();
        (0..1_000).map(|_| name(draw(&mut dice, kinds))).collect::<std::collections::BTreeSet<_>>()
    };
    let new = ["CutOff", "FalseNode", "Panic", "Pause", "StoppedWatch"];
    assert!(new.iter().all(|name| kinds(Kinds::All).contains(*name)), "{:?}", kinds(Kinds::All));
    assert_eq!(kinds(Kinds::All).difference(&kinds(Kinds::Cluster)).collect::<Vec<_>>(), new);
}

#[test]
fn panics_of_all_loops_are_counted_or_end_the_process() {
    let mut simulation = simulation(elected());
    let calls = ACTIONS.iter().flat_map(|action| [Target::Call(action, false), Target::Call(action, true)]);
    let targets = [Target::Plan, Target::Write(0), Target::Write(5), Target::Lease].into_iter().chain(calls);
    let mut at = QUIET;
    for (number, target) in targets.enumerate() {
        at += 2 * MINUTE;
        simulation.at(at, Event::Fault(Fault::Panic(target)));
        // Each change needs launches, drains and writes.
        scale(&mut simulation, at + SECOND, 8 + 4 * (number % 2));
    }
    simulation.run(at + 10 * MINUTE);
    println!("{}", verdict::figures(&simulation));
    assert_eq!(verdict::broken(&simulation), [""; 0]);
    for task in ["plan", "reconcile", "garbage collection", "process", "lease"] {
        let count = simulation.panics().get(task).copied().unwrap_or_default();
        assert!(count > 0, "no panic of {task}: {:?}", simulation.panics());
    }
    assert_eq!(verdict::left_over(&mut simulation), [""; 0]);
}

#[test]
fn verdict_finds_panics_that_are_not_injected() {
    let broken = |target| {
        let mut simulation = simulation(Setup::default());
        simulation.at(QUIET, Event::Fault(Fault::Bug(target)));
        scale(&mut simulation, QUIET + SECOND, 16);
        simulation.run(QUIET + 5 * MINUTE);
        simulation
    };
    assert_found(&broken(Target::Plan), "panics in [], and 1 reported: 0 ended tasks, {\"plan\": 1}");
    assert_found(&broken(Target::Call("ReceiveMessage", false)), "a task of the controller ended: a bug in a call");
}

/// The watch of pods stops, and then all nodes drift.
#[test]
fn commands_wait_until_the_stopped_watch_of_pods_continues() {
    let mut simulation = simulation(elected());
    let until = QUIET + 8 * MINUTE;
    simulation.at(QUIET, Event::Fault(Fault::StoppedWatch(PODS, until - QUIET)));
    simulation.at(QUIET + 5 * MINUTE, Event::Drift(1));
    simulation.run(until);
    assert_eq!(simulation.record.moves.iter().filter(|moved| moved.begun > QUIET + 4 * MINUTE).count(), 0);
    assert!(simulation.record.stale_checks > 0, "the view was never stale");
    simulation.run(until + 10 * MINUTE);
    assert!(simulation.record.moves.iter().any(|moved| moved.begun >= until), "drifted nodes stay");
    assert_eq!(verdict::broken(&simulation), [""; 0]);
    assert_eq!(verdict::left_over(&mut simulation), [""; 0]);
}

#[test]
fn verdict_finds_commands_when_stopped_watches_are_confirmed() {
    let commands = |false_bookmarks| {
        let mut simulation = simulation(Setup { false_bookmarks, ..Setup::default() });
        simulation.at(QUIET, Event::Fault(Fault::StoppedWatch(USAGES, 10 * MINUTE)));
        simulation.at(QUIET + 5 * MINUTE, Event::Drift(1));
        simulation.run(QUIET + 9 * MINUTE);
        simulation
    };
    assert_eq!(verdict::broken(&commands(false)), [""; 0]);
    assert_found(&commands(true), "begins, and a view is");
}

/// Pauses, cuts off and kills the leader by turns, and changes the demand each time.
fn contended(setup: Setup) -> Simulation {
    let mut simulation = simulation(setup);
    for number in 0..30 {
        let at = QUIET + 2 * number * MINUTE;
        let lasts = 8 * SECOND + number * SECOND;
        let fault = [Fault::Pause(lasts), Fault::CutOff(lasts), Fault::ControllerCrash(2)][number as usize % 3];
        scale(&mut simulation, at - 3 * SECOND, if number % 2 == 0 { 16 } else { 8 });
        simulation.at(at, Event::Fault(fault));
    }
    simulation.run(QUIET + 65 * MINUTE);
    println!("{}", verdict::figures(&simulation));
    simulation
}

#[test]
fn replicas_never_act_together_when_the_leader_fails() {
    for seed in 1..4 {
        let setup = Setup { seed, ..elected() };
        assert_ne!(setup.skews()[0], setup.skews()[1], "the clocks differ");
        let mut simulation = contended(setup);
        assert_eq!(verdict::broken(&simulation), [""; 0], "seed {seed}");
        let record = &simulation.record;
        assert!(record.takeovers > 10 && record.lost_leases > 5 && record.crashes > 5, "seed {seed}: {record:?}");
        assert_eq!(verdict::left_over(&mut simulation), [""; 0], "seed {seed}");
    }
}

#[test]
fn verdict_finds_two_replicas_without_an_election() {
    let mut simulation = simulation(Setup { replicas: Replicas::Unelected, ..Setup::default() });
    simulation.run(START + MINUTE);
    assert_found(&simulation, "of the controller act within");
}

#[test]
fn honest_nodes_keep_invariants_when_others_write_false_objects() {
    for seed in 1..4 {
        let mut simulation = simulation(Setup { seed, ..elected() });
        for number in 0..4 {
            let at = QUIET + 10 * number * MINUTE;
            let target = 31 * seed as usize + number as usize;
            simulation.at(at, Event::Fault(Fault::FalseNode(target, 15 * MINUTE)));
            scale(&mut simulation, at + 5 * MINUTE, if number % 2 == 0 { 16 } else { 8 });
        }
        simulation.run(QUIET + 60 * MINUTE);
        println!("{}", verdict::figures(&simulation));
        assert_eq!(verdict::broken(&simulation), [""; 0], "seed {seed}");
        assert!(simulation.record.false_nodes >= 3, "seed {seed}: {} nodes", simulation.record.false_nodes);
        assert!(simulation.record.false_writes > 50, "seed {seed}: {} writes", simulation.record.false_writes);
        assert_eq!(verdict::left_over(&mut simulation), [""; 0], "seed {seed}");
    }
}
