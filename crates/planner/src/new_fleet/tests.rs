//! Tests of the fleet for the pods of a cluster, in place of its nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{FleetCost, new_fleet, without_nodes};
use crate::{
    BoundPod, CapacityType, Catalogue, InstanceType, Leaving, MicroDollars, Node, Offering, Pod, PodShape, Pool,
    Reservation, Resources, Snapshot, label,
};

fn cpus(cpu: i64) -> Resources {
    Resources::from_iter([(Resources::CPU, cpu * 1000), (Resources::PODS, 50)])
}

fn limit(cpu: i64) -> Resources {
    Resources::from_iter([(Resources::CPU, cpu * 1000)])
}

fn pod_shape() -> Arc<PodShape> {
    let requests = Resources::from_iter([(Resources::CPU, 1000), (Resources::PODS, 1)]);
    Arc::new(PodShape { requests, ..PodShape::default() })
}

fn instance_type(name: &str, cpu: i64, price: i64) -> InstanceType {
    let offering = Offering {
        zone: "a".to_owned(),
        capacity_type: CapacityType::OnDemand,
        price: MicroDollars(price),
        premium: MicroDollars(0),
        available: true,
        labels: BTreeMap::new(),
        reservation: None,
    };
    InstanceType {
        name: name.to_owned(),
        capacity: cpus(cpu),
        allocatable: cpus(cpu),
        offerings: vec![offering],
        ..InstanceType::default()
    }
}

fn pod(name: &str, reschedulable: bool, shape: &Arc<PodShape>) -> BoundPod {
    let (uid, name) = (name.to_owned(), format!("default/{name}"));
    BoundPod { uid, name, reschedulable, shape: Arc::clone(shape), ..BoundPod::default() }
}

fn large_node(name: &str, pods: Vec<BoundPod>) -> Arc<Node> {
    Arc::new(Node {
        name: name.to_owned(),
        claim: Some(format!("claim-{name}")),
        pool: Some("general".to_owned()),
        instance_type: Some("large".to_owned()),
        allocatable: cpus(8),
        price: Some(MicroDollars(300_000)),
        pods,
        ..Node::default()
    })
}

/// Returns a cluster with three large nodes of a NodePool, each with one pod of 1 CPU.
fn oversized() -> Snapshot {
    let shape = pod_shape();
    let node = |name: &str| {
        large_node(name, vec![pod(&format!("web-{name}"), true, &shape), pod(&format!("log-{name}"), false, &shape)])
    };
    let pool = Pool {
        name: "general".to_owned(),
        limits: Some(limit(16)),
        usage: limit(24),
        running: 3,
        node_fee: MicroDollars(10_000),
        ..Pool::default()
    };
    let types = vec![instance_type("large", 8, 300_000), instance_type("small", 2, 100_000)];
    Snapshot {
        pools: vec![pool],
        catalogues: vec![Arc::new(Catalogue { name: "default".to_owned(), types, ..Catalogue::default() })],
        nodes: vec![node("one"), node("two"), node("three")],
        shapes: vec![shape],
        ..Snapshot::default()
    }
}

fn fleet(nodes: usize, price: i64, unplaced: usize) -> FleetCost {
    FleetCost { nodes, price: MicroDollars(price), unplaced }
}

#[test]
fn new_fleet_holds_the_pods_on_the_cheapest_nodes() {
    // The limit of 16 CPUs holds for the new nodes alone.
    assert_eq!(new_fleet(&oversized()), fleet(2, 220_000, 0));
}

#[test]
fn new_fleet_uses_nodes_without_nodepool_and_counts_pods_without_place() {
    let mut cluster = oversized();
    let own = Node { name: "own".to_owned(), allocatable: cpus(2), ..Node::default() };
    cluster.nodes.push(Arc::new(own));
    assert_eq!(new_fleet(&cluster), fleet(1, 110_000, 0));
    cluster.pools[0].limits = Some(limit(1));
    assert_eq!(new_fleet(&cluster), fleet(0, 0, 1));
}

#[test]
fn new_fleet_uses_the_reservation_of_removed_nodes() {
    let mut cluster = oversized();
    let mut large = instance_type("large", 8, 1);
    large.offerings[0].capacity_type = CapacityType::Reserved;
    large.offerings[0].available = false;
    large.offerings[0].labels = [(label::RESERVATION_ID.to_owned(), "cr-1".to_owned())].into();
    large.offerings[0].reservation = Some(Reservation { id: "cr-1".to_owned(), remaining: 0 });
    Arc::make_mut(&mut cluster.catalogues[0]).types[0] = large;
    assert_eq!(new_fleet(&cluster), fleet(2, 220_000, 0), "the reservation is used up");
    Arc::make_mut(&mut cluster.nodes[0]).labels.insert(label::RESERVATION_ID.to_owned(), "cr-1".to_owned());
    assert_eq!(new_fleet(&cluster), fleet(1, 10_001, 0));
}

#[test]
fn without_nodes_has_each_pod_of_a_leaving_node_once() {
    let mut cluster = oversized();
    Arc::make_mut(&mut cluster.nodes[0]).leaving = Some(Leaving::Deleting);
    let leaves = Pod {
        uid: "web-one".to_owned(),
        name: "default/web-one".to_owned(),
        leaving_node: Some("one".to_owned()),
        ..Pod::default()
    };
    cluster.pods.push(leaves);
    let empty = without_nodes(&cluster);
    let mut names: Vec<&str> = empty.pods.iter().map(|pod| pod.uid.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["web-one", "web-three", "web-two"]);
    assert!(empty.pods.iter().all(|pod| pod.leaving_node.is_none() && pod.shape == 0));
}
