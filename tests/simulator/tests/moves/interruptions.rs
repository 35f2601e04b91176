//! Spot interruption of many instances at once.

use std::collections::{BTreeMap, BTreeSet};

use api::condition;
use jiff::SignedDuration;
use serde_json::json;
use simulator::api_server::BUDGETS;
use simulator::clock::of_tokio;
use simulator::cluster::{ModelCluster, pool};
use simulator::surroundings::Workload;

use super::check;

const NODES: usize = 100;

/// A hundred instances get their notice in the same second. The controller launches all replacements at once, while the old
/// instances still run, and violates no budget.
#[tokio::test(start_paused = true)]
async fn interruption_of_100_nodes_is_replaced_by_one_plan() {
    let disruption = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]});
    let cluster = ModelCluster::new(pool(&["m5.large"], disruption), Default::default());
    let _controller_run = cluster.controller_run();
    cluster.want("web", Workload::of(NODES, 1500));
    cluster.until("the fleet", |cluster| cluster.is_settled(NODES, NODES)).await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": NODES * 9 / 10, "selector": {"matchLabels": {"app": "web"}}},
    });
    cluster.server.create(BUDGETS, budget);
    cluster
        .until("the budget to be counted", |cluster| {
            let allowed: Vec<api::objects::PodDisruptionBudget> = cluster.server.all(BUDGETS);
            if allowed[0].status.disruptions_allowed > 0 { Ok(()) } else { Err("it allows none".to_owned()) }
        })
        .await;
    cluster.server.checked_by(check::of(NODES));
    let old: BTreeSet<String> = cluster.claims().into_iter().filter_map(|claim| claim.metadata.name).collect();
    let fleets = cluster.ec2.count("CreateFleet");
    let deadline = of_tokio() + SignedDuration::from_secs(120);
    for machine in cluster.ec2.machines() {
        assert!(cluster.ec2.interrupt(&machine.instance.id, deadline));
    }
    // Conditions that the agents of these nodes write.
    for node in cluster.nodes() {
        cluster.surroundings.say(node.name(), condition::INTERRUPTED, condition::TRUE);
    }
    let noticed = of_tokio();
    cluster
        .until("replacements", |cluster| {
            let claims = cluster.claims();
            let new: BTreeMap<&str, _> = claims
                .iter()
                .map(|claim| (claim.metadata.name.as_deref().unwrap(), claim))
                .filter(|(name, _)| !old.contains(*name))
                .collect();
            if new.len() == NODES { Ok(()) } else { Err(format!("{} of {NODES} are there", new.len())) }
        })
        .await;
    let took = of_tokio().duration_since(noticed);
    assert!(took <= SignedDuration::from_secs(2), "the last replacement came after {took}");
    cluster.until("the new fleet", |cluster| cluster.is_settled(NODES, NODES)).await;
    assert_eq!(cluster.server.faults(), [] as [String; 0]);
    assert_eq!(cluster.ec2.machines().len(), 2 * NODES, "machines ever");
    let calls = cluster.ec2.count("CreateFleet") - fleets;
    assert_eq!(calls, 1, "claims that want the same share a call");
}
