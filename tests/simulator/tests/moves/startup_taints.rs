//! Startup taints that nothing removes, and kubelets that do not become ready: a few nodes, then a pause of the NodePool until its
//! owner changes it.

use std::time::Duration;

use api::{NodePool, condition};
use jiff::SignedDuration;
use serde_json::json;
use simulator::api_server::POOLS;
use simulator::cluster::{ModelCluster, pool};
use simulator::surroundings::{Boot, Workload};

#[tokio::test(start_paused = true)]
async fn startup_taint_that_stays_costs_a_few_nodes_an_hour() {
    let mut pool = pool(&["m5.large"], json!({"consolidateAfter": "Never"}));
    pool["spec"]["template"]["spec"]["startupTaints"] = json!([{"key": "example.com/setup", "effect": "NoExecute"}]);
    let cluster = ModelCluster::new(pool, Default::default());
    let _controller_run = cluster.controller_run();
    cluster.want("web", Workload::of(1, 1500));
    tokio::time::sleep(Duration::from_secs(50 * 60)).await;
    assert_eq!(cluster.ec2.count("CreateFleet"), 3, "one each quarter of an hour");
    assert!(cluster.claims().is_empty(), "the last one has ended");
    let pools: Vec<NodePool> = cluster.server.all(POOLS);
    let conditions = &pools[0].status.as_ref().unwrap().conditions;
    let launches = api::status::find(conditions, condition::LAUNCHES_HEALTHY).unwrap();
    let parts = ["3 launches", "startup taint example.com/setup was not removed within 900 s", "DaemonSet"];
    assert!(launches.is_false() && parts.iter().all(|part| launches.message.contains(part)), "{launches:?}");
    tokio::time::sleep(Duration::from_secs(60 * 60)).await;
    assert_eq!(cluster.ec2.count("CreateFleet"), 4, "one more after an hour");
    tokio::time::sleep(Duration::from_secs(25 * 60)).await;
    assert!(cluster.claims().is_empty(), "paused again");
    let change = json!({"metadata": {"generation": 2}, "spec": {"template": {"spec": {"startupTaints": null}}}});
    cluster.server.change(POOLS, "default", &change);
    cluster.until("a node after the change", |cluster| cluster.is_settled(1, 1)).await;
}

/// The second process knows the three nodes only from the annotation of the NodePool.
#[tokio::test(start_paused = true)]
async fn startup_pause_survives_a_restart_of_the_controller() {
    let mut pool = pool(&["m5.large"], json!({"consolidateAfter": "Never"}));
    pool["spec"]["template"]["spec"]["startupTaints"] = json!([{"key": "example.com/setup", "effect": "NoExecute"}]);
    let cluster = ModelCluster::new(pool, Default::default());
    let first = cluster.controller_run();
    cluster.want("web", Workload::of(1, 1500));
    tokio::time::sleep(Duration::from_secs(50 * 60)).await;
    assert_eq!((cluster.ec2.count("CreateFleet"), cluster.claims().len()), (3, 0));
    first.kill();
    let _next = cluster.controller_run();
    tokio::time::sleep(Duration::from_secs(45 * 60)).await;
    assert_eq!(cluster.ec2.count("CreateFleet"), 3, "the pause goes on");
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    assert_eq!(cluster.ec2.count("CreateFleet"), 4, "one more after an hour");
}

/// The first node registers and never becomes ready. Its pod is planned again after 15 minutes, and runs on the next node.
#[tokio::test(start_paused = true)]
async fn pod_leaves_the_plan_of_a_node_that_never_becomes_ready() {
    let cluster = ModelCluster::new(pool(&["m5.large"], json!({"consolidateAfter": "Never"})), Default::default());
    cluster.surroundings.boot(Boot { ready: SignedDuration::from_hours(100), ..Boot::default() });
    let _controller_run = cluster.controller_run();
    cluster.want("web", Workload::of(1, 1500));
    tokio::time::sleep(Duration::from_secs(15 * 60)).await;
    assert_eq!((cluster.ec2.count("CreateFleet"), cluster.claims().len()), (1, 1), "planned for the first node");
    cluster.surroundings.boot(Boot::default());
    tokio::time::sleep(Duration::from_secs(3 * 60)).await;
    assert_eq!(cluster.ec2.count("CreateFleet"), 2);
    cluster.until("the pod to run on the second node", |cluster| cluster.is_settled(1, 1)).await;
}
