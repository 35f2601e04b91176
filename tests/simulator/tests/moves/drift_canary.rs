//! Canary of drift: a few nodes are replaced first, and the others when the new nodes have been healthy for some time.

use std::time::Duration;

use api::condition;
use jiff::SignedDuration;
use serde_json::json;
use simulator::clock::of_tokio;
use simulator::cluster::{ModelCluster, pool};
use simulator::controller_run::ControllerRun;
use simulator::surroundings::Workload;

const NODES: usize = 12;
const CANARIES: usize = 3;
/// Time limit of a rollout without its canary.
const ROLLOUT: SignedDuration = SignedDuration::from_mins(30);

/// Returns a fleet whose configuration has just changed, with the names of its NodeClaims.
async fn changed_fleet() -> (ModelCluster, ControllerRun, Vec<String>) {
    let mut pool = pool(&["m5.large"], json!({"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]}));
    pool["metadata"]["annotations"] = json!({"kerf.sh/drift-canary": "25% for 20m"});
    let cluster = ModelCluster::new(pool, Default::default());
    let controller_run = cluster.controller_run();
    cluster.want("web", Workload::of(NODES, 1500));
    cluster.until("the fleet", |cluster| cluster.is_settled(NODES, NODES)).await;
    let old = cluster.claims().into_iter().filter_map(|claim| claim.metadata.name).collect();
    let labelled = json!({"spec": {"template": {"metadata": {"labels": {"tier": "new"}}}}});
    cluster.server.change("nodepools", "default", &labelled);
    (cluster, controller_run, old)
}

/// Returns how many of these NodeClaims are left.
fn left(cluster: &ModelCluster, old: &[String]) -> usize {
    cluster.claims().iter().filter(|claim| claim.metadata.name.as_ref().is_some_and(|name| old.contains(name))).count()
}

async fn canary_is_up(cluster: &ModelCluster, old: &[String]) {
    cluster
        .until("the canary", |cluster| match left(cluster, old) {
            left if left > NODES - CANARIES => Err(format!("{left} of {NODES} are left")),
            _ => cluster.is_settled(NODES, NODES),
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn drift_replaces_the_others_when_the_canary_has_been_healthy_for_its_time() {
    let (cluster, _controller_run, old) = changed_fleet().await;
    canary_is_up(&cluster, &old).await;
    let begin = of_tokio();
    let mut held = SignedDuration::ZERO;
    while left(&cluster, &old) > 0 {
        let passed = of_tokio().duration_since(begin);
        if left(&cluster, &old) == NODES - CANARIES {
            held = passed;
        }
        assert!(passed < SignedDuration::from_mins(20) + ROLLOUT, "{} are left", left(&cluster, &old));
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    // The canary was healthy for at most two minutes before all of it was up.
    assert!(held > SignedDuration::from_mins(17), "the others were replaced after {held}");
    cluster.until("the new fleet", |cluster| cluster.is_settled(NODES, NODES)).await;
    assert_eq!(cluster.ec2.machines().len(), 2 * NODES, "machines ever");
}

#[tokio::test(start_paused = true)]
async fn drift_stops_while_a_canary_node_is_unhealthy() {
    let (cluster, _controller_run, old) = changed_fleet().await;
    canary_is_up(&cluster, &old).await;
    let claims = cluster.claims();
    let new = claims.iter().find(|claim| claim.metadata.name.as_ref().is_some_and(|name| !old.contains(name)));
    let node = new.and_then(|claim| claim.status.clone()).map(|status| status.node_name).unwrap();
    cluster.surroundings.say(&node, condition::READY, condition::FALSE);
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    assert_eq!(left(&cluster, &old), NODES - CANARIES, "no further node is replaced");
    cluster.surroundings.say(&node, condition::READY, condition::TRUE);
    cluster
        .until("the new fleet", |cluster| match left(cluster, &old) {
            0 => cluster.is_settled(NODES, NODES),
            left => Err(format!("{left} of {NODES} are left")),
        })
        .await;
}
