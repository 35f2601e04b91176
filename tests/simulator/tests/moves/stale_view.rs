//! A controller whose view of a kind is old removes nothing that it does not see.

use std::sync::Arc;
use std::time::Duration;

use api::objects::{Node, Pod};
use api::status::Conditioned;
use api::{NodeClaim, NodePool, condition, taint};
use serde_json::json;
use simulator::api_server::{CLAIMS, NODES, PODS, POOLS};
use simulator::clock::of_tokio;
use simulator::cluster::{ModelCluster, pool};
use simulator::controller_run::ControllerRun;
use simulator::crash::Crash;
use simulator::surroundings::Workload;

const FLEET: usize = 2;

/// The watch of pods ends, and then half of the pods. Consolidation begins only when the API server confirms the view again.
#[tokio::test(start_paused = true)]
async fn consolidation_waits_while_the_view_of_pods_is_stale() {
    let cluster = ModelCluster::new(pool(&["m5.large"], json!({"consolidateAfter": "0s"})), Default::default());
    let run = cluster.controller_run();
    cluster.want("web", Workload::of(FLEET, 1500));
    cluster.until("two nodes", |cluster| cluster.is_settled(FLEET, FLEET)).await;
    run.cluster.view_ages.confirm("Pod", of_tokio());
    tokio::time::sleep(Duration::from_secs(200)).await;
    cluster.surroundings.scale("web", 1);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(cluster.claims().len(), FLEET, "an empty node stays");
    let message = condition_of(&cluster).expect("a condition on the NodePool");
    assert!(message.contains("view of Pod (since ") && message.contains("no voluntary disruption"), "{message}");
    let ages = run.cluster.clone();
    let confirmed = tokio::spawn(async move {
        loop {
            ages.view_ages.confirm("Pod", of_tokio());
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
    });
    cluster.until("one node", |cluster| cluster.is_settled(1, 1)).await;
    assert_eq!(condition_of(&cluster), None, "the condition is gone");
    confirmed.abort();
}

fn condition_of(cluster: &ModelCluster) -> Option<String> {
    let pool: NodePool = cluster.server.all(POOLS).remove(0);
    let found = api::status::find(pool.conditions(), condition::WATCHES_HEALTHY)?;
    Some(found.message.clone())
}

/// Stops the watch of pods while there is one empty node, and lets a pod be bound to it.
async fn hide_pod_on_empty_node(cluster: &ModelCluster, run: &ControllerRun) {
    cluster.want("web", Workload::of(1, 500));
    cluster.until("one node", |cluster| cluster.is_settled(1, 1)).await;
    cluster.surroundings.scale("web", 0);
    cluster.until("an empty node", |cluster| cluster.is_settled(1, 0)).await;
    run.watches.stop(PODS);
    cluster.surroundings.scale("web", 1);
    cluster.until("a pod that the controller does not see", |cluster| cluster.is_settled(1, 1)).await;
}

/// The watch of pods fails, and then a pod is bound to an empty node. The deletion of the node evicts the pod before the instance
/// ends.
#[tokio::test(start_paused = true)]
async fn instance_is_terminated_only_after_a_live_list_of_its_pods() {
    let cluster = ModelCluster::new(pool(&["m5.large"], json!({"consolidateAfter": "Never"})), Default::default());
    let run = cluster.controller_run();
    hide_pod_on_empty_node(&cluster, &run).await;
    let claim = cluster.claims().remove(0).metadata.name.unwrap();
    cluster.server.checked_by(Box::new(|objects| {
        let nodes = objects.all::<Node>(NODES);
        let has_node = |pod: &Pod| nodes.iter().any(|node| node.name() == pod.spec.node_name);
        let lost = objects.all::<Pod>(PODS).into_iter().find(|pod| pod.is_bound() && !has_node(pod));
        lost.map(|pod| format!("pod {} is on node {}, which is gone", pod.name(), pod.spec.node_name))
    }));
    cluster.server.delete(CLAIMS, &claim);
    cluster
        .until("the end of the node", |cluster| match cluster.server.get::<NodeClaim>(CLAIMS, &claim) {
            Some(_) => Err("the NodeClaim is still there".to_owned()),
            None => Ok(()),
        })
        .await;
    assert_eq!(cluster.server.faults(), [] as [String; 0], "pods without their node");
}

/// The watch of pods stops, and then a pod is bound to an empty node. The command for the node begins, and ends when a live list
/// shows the pod.
#[tokio::test(start_paused = true)]
async fn consolidation_keeps_the_node_of_a_pod_that_it_does_not_see() {
    let cluster = ModelCluster::new(pool(&["m5.large"], json!({"consolidateAfter": "60s"})), Default::default());
    let run = cluster.controller_run();
    run.cluster.view_ages.confirm("Pod", of_tokio());
    hide_pod_on_empty_node(&cluster, &run).await;
    let running = || {
        let pods = cluster.server.all::<Pod>(PODS).into_iter().filter(|pod| !pod.is_terminating());
        pods.map(|pod| pod.metadata.uid).collect::<Vec<_>>()
    };
    let pod = running();
    tokio::time::sleep(Duration::from_secs(150)).await;
    let begun = "karpenter_voluntary_disruption_decisions_total{decision=\"delete\",reason=\"empty\"";
    let metrics = run.metrics();
    assert!(metrics.lines().any(|line| line.starts_with(begun)), "no command began: {metrics}");
    assert_eq!(running(), pod, "the pod was evicted");
    run.watches.relist(PODS, &cluster.server);
    run.cluster.view_ages.confirm("Pod", of_tokio());
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(cluster.is_settled(1, 1), Ok(()));
    let node = cluster.server.all::<Node>(NODES).remove(0);
    assert!(!node.has_taint(taint::DISRUPTED, taint::NO_SCHEDULE), "the node keeps its taint");
}

/// The watch of NodeClaims of a second replica has stopped when the first one launches instances, and then the second one leads.
/// Its view is not stale yet, and still it terminates none of the instances.
#[tokio::test(start_paused = true)]
async fn gc_keeps_instances_whose_nodeclaims_it_does_not_see() {
    let cluster = ModelCluster::new(pool(&["m5.large"], json!({"consolidateAfter": "Never"})), Default::default());
    let crash = Arc::new(Crash::never());
    let mut second = cluster.awake(crash.alive(), Arc::clone(&crash), crash);
    second.confirms_watches(false);
    second.watches.stop(CLAIMS);
    let first = cluster.controller_run();
    cluster.want("web", Workload::of(FLEET, 1500));
    cluster.until("two nodes", |cluster| cluster.is_settled(FLEET, FLEET)).await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    first.kill();
    second.plans(cluster.rules());
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(cluster.is_settled(FLEET, FLEET), Ok(()));
    assert_eq!(second.cluster.read(|index| index.claims.len()), 0, "the second replica sees no NodeClaim");
}
