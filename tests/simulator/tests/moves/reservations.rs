//! Capacity reservations: they are used first, a capacity block is left before its end, and a node whose reservation ends stays.

use api::{NodeClaim, label};
use cloud::CapacityReservation;
use controller::settings::Gates;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use simulator::clock::of_tokio;
use simulator::cluster::{ModelCluster, pool};
use simulator::controller_run::ControllerRun;
use simulator::surroundings::Workload;

const RESERVED: usize = 2;
/// Time before the end of a capacity block at which EC2 begins to terminate its instances.
const EC2_TERMINATES: SignedDuration = SignedDuration::from_mins(30);

/// Returns a cluster with a reservation that its EC2NodeClass selects, for this number of pods, each of which needs a node.
async fn fleet(pods: usize, reservation: CapacityReservation) -> (ModelCluster, ControllerRun, String) {
    let mut pool = pool(&["m5.large"], json!({"consolidateAfter": "Never", "budgets": [{"nodes": "0"}]}));
    let capacity_types = &mut pool["spec"]["template"]["spec"]["requirements"][2]["values"];
    *capacity_types = json!([label::CAPACITY_RESERVED, label::CAPACITY_ON_DEMAND]);
    let cluster = ModelCluster::new(pool, Gates::default());
    let id = cluster.ec2.account().create_reservation(reservation).id;
    let selected = json!({"spec": {"capacityReservationSelectorTerms": [{"id": id}]}});
    cluster.server.change("ec2nodeclasses", "default", &selected);
    let controller_run = cluster.controller_run();
    cluster.want("web", Workload::of(pods, 1500));
    cluster.until("the fleet", |cluster| cluster.is_settled(pods, pods)).await;
    (cluster, controller_run, id)
}

fn reservation() -> CapacityReservation {
    CapacityReservation {
        instance_type: "m5.large".to_owned(),
        zone: "us-west-2a".to_owned(),
        match_criteria: "targeted".to_owned(),
        state: "active".to_owned(),
        total: u32::try_from(RESERVED).unwrap(),
        ..CapacityReservation::default()
    }
}

/// Returns the NodeClaims with a capacity type, by name.
fn named(cluster: &ModelCluster, capacity_type: &str) -> Vec<String> {
    let is_of = |claim: &NodeClaim| {
        claim
            .metadata
            .labels
            .as_ref()
            .and_then(|all| all.get(label::CAPACITY_TYPE))
            .is_some_and(|it| it == capacity_type)
    };
    cluster.claims().into_iter().filter(is_of).filter_map(|claim| claim.metadata.name).collect()
}

#[tokio::test(start_paused = true)]
async fn reserved_capacity_is_used_before_on_demand() {
    let (cluster, _controller_run, id) = fleet(RESERVED + 1, reservation()).await;
    let counts = [label::CAPACITY_RESERVED, label::CAPACITY_ON_DEMAND].map(|it| named(&cluster, it).len());
    assert_eq!(counts, [RESERVED, 1]);
    assert_eq!(cluster.ec2.reservation(&id).map(|it| it.available), Some(0));
}

#[tokio::test(start_paused = true)]
async fn nodes_of_a_capacity_block_are_replaced_before_ec2_terminates_them() {
    let end: Timestamp = of_tokio() + SignedDuration::from_mins(90);
    let block = CapacityReservation { capacity_block: true, ends: Some(end.to_string()), ..reservation() };
    let (cluster, _controller_run, _) = fleet(RESERVED, block).await;
    let before = named(&cluster, label::CAPACITY_RESERVED);
    assert_eq!(before.len(), RESERVED);
    cluster
        .until("nodes outside of the block", |cluster| match named(cluster, label::CAPACITY_RESERVED).len() {
            0 => cluster.is_settled(RESERVED, RESERVED),
            left => Err(format!("{left} are in it")),
        })
        .await;
    let left = end.duration_since(of_tokio());
    assert!(left > EC2_TERMINATES, "the pods run elsewhere {left} before the end of the block");
    assert!(left < SignedDuration::from_mins(41), "the block was left {left} before its end");
    let after = named(&cluster, label::CAPACITY_ON_DEMAND);
    assert!(after.len() == RESERVED && after.iter().all(|name| !before.contains(name)), "{before:?}, {after:?}");
}

#[tokio::test(start_paused = true)]
async fn node_of_a_cancelled_reservation_stays_as_on_demand() {
    let (cluster, _controller_run, id) = fleet(RESERVED, reservation()).await;
    let before = named(&cluster, label::CAPACITY_RESERVED);
    assert!(cluster.ec2.account().cancel_reservation(&id));
    cluster
        .until("the labels to change", |cluster| match named(cluster, label::CAPACITY_ON_DEMAND) {
            after if after == before => cluster.is_settled(RESERVED, RESERVED),
            after => Err(format!("on-demand are {after:?}")),
        })
        .await;
    assert_eq!(cluster.ec2.machines().len(), RESERVED, "machines ever");
}
