//! Interruption of fifty instances at the same moment: one plan launches all replacements, and no PodDisruptionBudget is
//! violated.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::collections::{BTreeMap, BTreeSet};

use day::app::App;
use day::clock::{MINUTE, Moment, SECOND, START};
use day::faults::Fault;
use day::setup::Setup;
use day::simulation::Simulation;
use day::trace::Event;
use day::verdict;

const TAKEN: usize = 50;

/// Interrupts fifty of about 75 small instances. Returns the NodeClaims that were created within three minutes for
/// replacement, by the second of their plan.
fn bought(services: impl Iterator<Item = App>) -> BTreeMap<Moment, usize> {
    let setup = Setup { duds: 0, sizes: vec!["large"], ..Setup::default() };
    let mut simulation = Simulation::new(&setup).unwrap();
    services.for_each(|app| simulation.at(START, Event::Come(app)));
    let moment = START + 5 * MINUTE;
    (0..TAKEN).for_each(|_| simulation.at(moment, Event::Fault(Fault::Notice(7))));
    simulation.run(moment - 1);
    assert!(
        simulation.cluster_state.nodes.len() > TAKEN + TAKEN / 4,
        "{} machines",
        simulation.cluster_state.nodes.len()
    );
    let mut known: BTreeSet<String> = simulation.cluster_state.claims.keys().cloned().collect();
    let mut bought: BTreeMap<Moment, usize> = BTreeMap::new();
    for second in 0..3 * 60 {
        simulation.run(moment + second * SECOND);
        for (name, claim) in &simulation.cluster_state.claims {
            if known.insert(name.clone()) && claim.replaces().next().is_none() {
                // Two plans are at least a second apart.
                let created = claim.metadata.creation_timestamp.as_ref().unwrap().0;
                *bought.entry(created.as_millisecond()).or_default() += 1;
            }
        }
    }
    println!("{}\nclaims by plan: {bought:?}", verdict::figures(&simulation));
    assert_eq!(simulation.record.notices, TAKEN);
    assert_eq!(verdict::broken(&simulation), [""; 0]);
    assert_eq!(simulation.audit.forced, 0, "a drain had to be forced");
    assert_eq!(simulation.waits_longer_than(0).count(), 0);
    bought
}

fn service(number: usize) -> App {
    // Two minutes are enough to evict eight of twelve pods, three at a time. One at a time, the last pods would be deleted
    // without an eviction.
    let may_be_away = number.is_multiple_of(2).then_some(3 + number % 3);
    App { name: format!("service-{number:02}"), wanted: 12, cpu: 600, may_be_away, ..App::default() }
}

#[test]
fn plan_replaces_all_nodes_when_ec2_interrupts_fifty() {
    let bought = bought((0..18).map(service));
    assert_eq!(bought.len(), 1, "claims by plan: {bought:?}");
}

/// Pods of different shapes need some additional nodes, because kube-scheduler gives free capacity to any pending pod. Pods
/// that cannot be evicted yet lose that capacity.
#[test]
fn first_plan_launches_most_nodes_when_pods_differ() {
    let kinds = |number: usize| {
        let (spread, apart) = (number % 4 == 1, number % 6 == 3);
        App { cpu: [400, 600, 800][number % 3], spread, apart, ..service(number) }
    };
    let bought = bought((0..18).map(kinds));
    let (first, all) = (bought.values().next().copied().unwrap(), bought.values().sum::<usize>());
    assert!(first * 100 >= all * 85, "claims by plan: {bought:?}");
}
