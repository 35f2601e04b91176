//! Spot interruption of many instances at once.

use std::collections::{BTreeMap, BTreeSet};

use api::condition;
use jiff::SignedDuration;
use lives::api_server::BUDGETS;
use lives::clock::of_tokio;
use lives::surroundings::Workload;
use lives::town::{Town, pool};
use serde_json::json;

use super::judge;

const NODES: usize = 100;

/// A hundred instances get their notice in the same second. The controller launches all replacements at once, while the old
/// instances still run, and violates no budget.
#[tokio::test(start_paused = true)]
async fn interruption_of_100_nodes_is_replaced_by_one_plan() {
    let disruption = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]});
    let town = Town::new(pool(&["m5.large"], disruption), Default::default());
    let _life = town.life();
    town.want("web", Workload::of(NODES, 1500));
    town.until("the fleet", |town| town.is_settled(NODES, NODES)).await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": NODES * 9 / 10, "selector": {"matchLabels": {"app": "web"}}},
    });
    town.server.create(BUDGETS, budget);
    town.until("the budget to be counted", |town| {
        let allowed: Vec<api::objects::PodDisruptionBudget> = town.server.all(BUDGETS);
        if allowed[0].status.disruptions_allowed > 0 { Ok(()) } else { Err("it allows none".to_owned()) }
    })
    .await;
    town.server.judged_by(judge::of(NODES));
    let old: BTreeSet<String> = town.claims().into_iter().filter_map(|claim| claim.metadata.name).collect();
    let fleets = town.ec2.count("CreateFleet");
    let deadline = of_tokio() + SignedDuration::from_secs(120);
    for machine in town.ec2.machines() {
        assert!(town.ec2.interrupt(&machine.instance.id, deadline));
    }
    // Conditions that the agents of these nodes write.
    for node in town.nodes() {
        town.surroundings.say(node.name(), condition::INTERRUPTED, condition::TRUE);
    }
    let noticed = of_tokio();
    town.until("replacements", |town| {
        let claims = town.claims();
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
    town.until("the new fleet", |town| town.is_settled(NODES, NODES)).await;
    assert_eq!(town.server.faults(), [] as [String; 0]);
    assert_eq!(town.ec2.machines().len(), 2 * NODES, "machines ever");
    let calls = town.ec2.count("CreateFleet") - fleets;
    assert_eq!(calls, 1, "claims that want the same share a call");
}
