//! Each scenario once without a crash, and then once for each write and kind of crash.

use std::sync::Arc;

use simulator::cluster::ModelCluster;
use simulator::crash::Crash;

use super::check;
use super::scenarios::{ALL, Scenario};

/// Runs a scenario whose first controller run ends at this crash, if the scenario has that many writes.
async fn play(scenario: &Scenario, crash: Crash) -> Arc<Crash> {
    let (cluster, crash) = (scenario.settled().await, Arc::new(crash));
    cluster.server.checked_by(check::of(scenario.most_disturbed));
    let controller_run = cluster.run_until(&crash);
    scenario.changes(&cluster);
    let ended = tokio::select! {
        () = crash.comes() => false,
        () = scenario.ends(&cluster) => true,
    };
    controller_run.kill();
    if !ended {
        let controller_run = cluster.controller_run();
        scenario.ends(&cluster).await;
        controller_run.kill();
    }
    check_the_end(scenario, &cluster);
    crash
}

fn check_the_end(scenario: &Scenario, cluster: &ModelCluster) {
    assert_eq!(cluster.server.faults(), [] as [String; 0], "{}", scenario.name);
    let machines = cluster.ec2.machines();
    assert_eq!(machines.len(), scenario.end.2, "{}: machines ever", scenario.name);
    let owned = cluster.server.owned();
    let unowned: Vec<String> =
        machines.iter().map(|it| it.instance.provider_id()).filter(|id| !owned.contains(id)).collect();
    assert_eq!(unowned, [] as [String; 0], "{}: launched without an owner", scenario.name);
}

/// Runs all crashes of a scenario, one after the other.
fn die_everywhere(scenario: &Scenario) {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let writes = runtime().block_on(play(scenario, Crash::never())).writes();
    assert!(writes > 5, "{}: {writes} writes are too few for a scenario", scenario.name);
    for at in 1..=writes {
        for taken in [false, true] {
            println!("{}: dies at write {at} of {writes}, taken: {taken}", scenario.name);
            runtime().block_on(play(scenario, Crash::at(at, taken)));
        }
    }
}

#[test]
fn drift_replaces_nodes_wherever_the_controller_dies() {
    die_everywhere(&ALL[0]);
}

#[test]
fn consolidation_merges_nodes_wherever_the_controller_dies() {
    die_everywhere(&ALL[1]);
}

#[test]
fn consolidation_removes_node_wherever_the_controller_dies() {
    die_everywhere(&ALL[2]);
}

#[test]
fn deletion_drains_node_wherever_the_controller_dies() {
    die_everywhere(&ALL[3]);
}
