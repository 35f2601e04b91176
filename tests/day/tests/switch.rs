//! Migration from Karpenter's disruption to Kerf's: where Karpenter has no command left, Kerf begins none for hours.

use std::collections::BTreeSet;

use day::app::App;
use day::budget::Allowed;
use day::clock::{HOUR, MINUTE, SECOND, START};
use day::setup::{Pool, Setup};
use day::simulation::Simulation;
use day::trace::Event;
use replay::KarpenterRules;

/// Simulated time with Kerf's rules.
const LASTS: i64 = 6 * HOUR;

fn machines(simulation: &Simulation) -> BTreeSet<String> {
    simulation.cluster_state.market.instances.values().map(|instance| instance.id.clone()).collect()
}

#[test]
fn controller_starts_no_move_when_the_cluster_is_settled() {
    let setup = Setup {
        duds: 0,
        pools: vec![Pool::fixed(Allowed::Percent(100))],
        after: "0s",
        sizes: vec!["xlarge"],
        grain: SECOND,
        ..Setup::default()
    };
    let mut simulation = Simulation::new(&setup).unwrap();
    simulation.ruled_by(Some(KarpenterRules::new(0)));
    // One pod fills most of a node of the only available size, so no other fleet is cheaper.
    let services =
        (0..20).map(|number| App { name: format!("service-{number}"), wanted: 1, cpu: 2500, ..App::default() });
    services.for_each(|app| simulation.at(START, Event::Come(app)));
    simulation.run(START + 30 * MINUTE);
    let (before, plans) = (machines(&simulation), simulation.record.plans);
    assert_eq!(before.len(), 20);

    simulation.ruled_by(None);
    simulation.run(START + 30 * MINUTE + LASTS);
    assert_eq!(machines(&simulation), before);
    assert_eq!(simulation.record.moves.len(), 0);
    assert_eq!((simulation.cluster_state.evicted, simulation.audit.breaches.len()), (0, 0));
    assert!(simulation.record.plans > plans, "no plan was made");
}
