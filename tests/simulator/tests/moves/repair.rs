//! Repair of unhealthy nodes with the feature gate NodeRepair. The delay is short when two sources agree, long when one source
//! reports alone, and some nodes are not replaced.

use api::{condition, reason};
use cloud::InstanceStatus;
use controller::settings::Gates;
use jiff::SignedDuration;
use serde_json::json;
use simulator::clock::of_tokio;
use simulator::cluster::{ModelCluster, pool};
use simulator::surroundings::Workload;
use snapshot::NodeRepair;

const NODES: usize = 10;

async fn fleet(gates: Gates) -> (ModelCluster, simulator::controller_run::ControllerRun) {
    let disruption = json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]});
    let cluster = ModelCluster::new(pool(&["m5.large"], disruption), gates);
    let controller_run = cluster.controller_run();
    cluster.want("web", Workload::of(NODES, 1500));
    cluster.until("the fleet", |cluster| cluster.is_settled(NODES, NODES)).await;
    (cluster, controller_run)
}

fn repairing() -> Gates {
    Gates { node_repair: NodeRepair::All, ..Gates::default() }
}

/// Returns a node with its NodeClaim and its instance.
fn first_node(cluster: &ModelCluster) -> (String, String, String) {
    let claim = cluster.claims().swap_remove(0);
    let status = claim.status.unwrap();
    let instance = status.provider_id.rsplit('/').next().unwrap().to_owned();
    (status.node_name, claim.metadata.name.unwrap(), instance)
}

/// Returns the time until the NodeClaim is being deleted; `None` if that does not happen within `patience`.
async fn goes_after(cluster: &ModelCluster, claim: &str, patience: SignedDuration) -> Option<SignedDuration> {
    let begin = of_tokio();
    loop {
        let found = cluster.claims().into_iter().find(|it| it.metadata.name.as_deref() == Some(claim));
        let passed = of_tokio().duration_since(begin);
        if found.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some()) {
            return Some(passed);
        }
        if passed > patience {
            return None;
        }
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn repair_takes_less_than_a_minute_when_kubelet_and_agent_agree() {
    let (cluster, _controller_run) = fleet(repairing()).await;
    let (node, claim, _) = first_node(&cluster);
    cluster.surroundings.say(&node, condition::READY, condition::FALSE);
    cluster.surroundings.say(&node, condition::KERNEL_READY, condition::FALSE);
    let took = goes_after(&cluster, &claim, SignedDuration::from_mins(10)).await.unwrap();
    // The times of conditions are in whole seconds.
    assert!(took < SignedDuration::from_mins(1) && took > SignedDuration::from_secs(28), "it took {took}");
    cluster.until("a healthy fleet", |cluster| cluster.is_settled(NODES, NODES)).await;
}

#[tokio::test(start_paused = true)]
async fn repair_takes_two_minutes_when_ec2_and_agent_agree() {
    let (cluster, _controller_run) = fleet(repairing()).await;
    let (node, claim, instance) = first_node(&cluster);
    let since = Some(of_tokio().to_string());
    cluster.ec2.set_status(InstanceStatus { instance, instance_impaired_since: since, ..InstanceStatus::default() });
    cluster.surroundings.say(&node, condition::STORAGE_READY, condition::FALSE);
    let took = goes_after(&cluster, &claim, SignedDuration::from_mins(10)).await.unwrap();
    assert!(took < SignedDuration::from_mins(2), "it took {took}");
}

#[tokio::test(start_paused = true)]
async fn repair_takes_30_minutes_when_one_source_reports() {
    let (cluster, _controller_run) = fleet(repairing()).await;
    let (node, claim, _) = first_node(&cluster);
    cluster.surroundings.say(&node, condition::READY, condition::FALSE);
    let took = goes_after(&cluster, &claim, SignedDuration::from_mins(40)).await.unwrap();
    // Conditions have a resolution of one second.
    assert!((1799..=1815).contains(&took.as_secs()), "it took {took}");
}

#[tokio::test(start_paused = true)]
async fn repair_is_disabled_without_feature_gate() {
    let (cluster, _controller_run) = fleet(Gates::default()).await;
    let (node, claim, _) = first_node(&cluster);
    cluster.surroundings.say(&node, condition::READY, condition::FALSE);
    cluster.surroundings.say(&node, condition::KERNEL_READY, condition::FALSE);
    assert_eq!(goes_after(&cluster, &claim, SignedDuration::from_mins(60)).await, None);
}

#[tokio::test(start_paused = true)]
async fn repair_is_blocked_when_over_20_percent_are_unhealthy() {
    let (cluster, controller_run) = fleet(repairing()).await;
    let claims: Vec<String> = cluster.claims().into_iter().filter_map(|claim| claim.metadata.name).collect();
    for claim in cluster.claims().iter().take(3) {
        let node = &claim.status.as_ref().unwrap().node_name;
        cluster.surroundings.say(node, condition::READY, condition::FALSE);
        cluster.surroundings.say(node, condition::KERNEL_READY, condition::FALSE);
    }
    assert_eq!(goes_after(&cluster, &claims[0], SignedDuration::from_mins(60)).await, None);
    let events = controller_run.events();
    assert!(events.iter().any(|event| event.starts_with(reason::NODE_REPAIR_BLOCKED)), "{events:?}");
}
