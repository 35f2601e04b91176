//! Reboots of instances: the NodeClaim of a node that returns stays, that of a node that reports a reboot for ever does not.

use std::collections::BTreeMap;
use std::time::Duration;

use api::objects::Node;
use api::status::Conditioned;
use api::{condition, reason};
use serde_json::{Value, json};
use simulator::api_server::NODES;
use simulator::cluster::{ModelCluster, pool};
use simulator::surroundings::Workload;

/// Sets the condition of a Node that its agent sets for a reboot, and the cordon.
fn report(cluster: &ModelCluster, name: &str, reboots: bool) {
    let node: std::sync::Arc<Node> = cluster.server.get(NODES, name).unwrap();
    let status = if reboots { condition::TRUE } else { condition::FALSE };
    let mut conditions: Vec<Value> = node.status.conditions.iter().map(|it| json!(it)).collect();
    conditions.retain(|found| found["type"] != condition::INTERRUPTED);
    conditions.push(json!({"type": condition::INTERRUPTED, "status": status, "reason": reason::INSTANCE_REBOOT}));
    let change = json!({"spec": {"unschedulable": reboots}, "status": {"conditions": conditions}});
    cluster.server.change(NODES, name, &change);
}

/// Returns the names of NodeClaims by the names of their Nodes.
fn claims(cluster: &ModelCluster) -> BTreeMap<String, String> {
    let named = |claim: &api::NodeClaim| {
        Some((claim.status.as_ref()?.node_name.clone(), claim.metadata.name.clone().unwrap_or_default()))
    };
    cluster.claims().iter().filter_map(named).collect()
}

#[tokio::test(start_paused = true)]
async fn reboot_keeps_the_claim_of_a_node_that_returns_in_time() {
    let disruption = json!({"consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized"});
    let cluster = ModelCluster::new(pool(&["m5.large"], disruption), Default::default());
    let _controller_run = cluster.controller_run();
    cluster.want("web", Workload::of(2, 1500));
    cluster.until("two nodes", |cluster| cluster.is_settled(2, 2)).await;
    let before = claims(&cluster);
    let names: Vec<&String> = before.keys().collect();
    let [returns, lost] = names[..] else { panic!("{names:?}") };
    report(&cluster, returns, true);
    report(&cluster, lost, true);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(claims(&cluster), before);
    assert!(cluster.claims().iter().all(|claim| claim.is_true(condition::REBOOTING)));
    report(&cluster, returns, false);
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert_eq!(claims(&cluster), before, "ten minutes have not passed");
    tokio::time::sleep(Duration::from_secs(60)).await;
    cluster.until("the replacement", |cluster| cluster.is_settled(2, 2)).await;
    let after = claims(&cluster);
    assert_eq!(after.get(returns), before.get(returns), "{after:?}");
    assert!(!after.contains_key(lost), "{after:?}");
}
