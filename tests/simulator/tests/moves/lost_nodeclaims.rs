//! NodeClaims that are lost while their instances run.

use api::objects::Node;
use api::reason;
use serde_json::json;
use simulator::api_server::CLAIMS;
use simulator::cluster::{ModelCluster, pool};
use simulator::surroundings::Workload;

/// Longer than some rounds of garbage collection, and than the grace period of young instances.
const MINUTES: u64 = 15;

/// Starts six nodes and removes the first NodeClaims, as a restore of etcd does. Returns the nodes before, and the cluster afterwards.
async fn lost(number: usize) -> (Vec<Node>, ModelCluster) {
    let cluster = ModelCluster::new(pool(&["m5.large"], json!({"consolidateAfter": "Never"})), Default::default());
    let run = cluster.controller_run();
    cluster.want("web", Workload::of(6, 1500));
    cluster.until("six nodes", |cluster| cluster.is_settled(6, 6)).await;
    let before = cluster.nodes();
    for claim in cluster.claims().iter().take(number) {
        cluster.server.remove(CLAIMS, claim.metadata.name.as_deref().unwrap());
    }
    tokio::time::sleep(std::time::Duration::from_secs(MINUTES * 60)).await;
    let reported = run.events().iter().any(|event| event.contains(reason::ORPHANED_INSTANCES_KEPT));
    assert_eq!(reported, number > 3, "{number}");
    (before, cluster)
}

fn running(cluster: &ModelCluster, nodes: &[Node]) -> usize {
    let machines = cluster.ec2.machines();
    let alive = machines.iter().filter(|machine| !machine.instance.is_ending());
    alive.filter(|machine| nodes.iter().any(|node| node.spec.provider_id == machine.instance.provider_id())).count()
}

#[tokio::test(start_paused = true)]
async fn instances_are_kept_when_all_nodeclaims_are_lost() {
    let (before, cluster) = lost(6).await;
    assert_eq!(running(&cluster, &before), 6);
}

#[tokio::test(start_paused = true)]
async fn instances_are_terminated_when_few_nodeclaims_are_lost() {
    let (before, cluster) = lost(2).await;
    assert_eq!(running(&cluster, &before), 4);
}
