//! Nodes of one type whose pods differ only in size, and kube-scheduler's placement of the moved ones.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use planner::{BoundPod, CommandReason};
use planner::{
    Budgets, CapacityType, Catalogue, ConsolidationPolicy, InstanceType, MicroDollars, Node, Offering, Plan,
    PlannedCommand, PodShape, Pool, Resources, Snapshot, label,
};
use proptest::collection::vec;
use proptest::prelude::Strategy;

use crate::clusters::Cluster;

/// Capacity of a node in halves of a CPU, and its price.
const WHOLE: i64 = 16;
const PRICE: MicroDollars = MicroDollars(400_000);
const HALF: i64 = 500;

/// Returns nodes with between one and all of their halves in use.
pub fn sized() -> impl Strategy<Value = Cluster> {
    vec(vec(1..9i64, 1..5), 2..7).prop_map(|nodes| {
        let nodes = nodes.into_iter().enumerate().map(|(position, pods)| Arc::new(node(position, &pods)));
        Cluster(Snapshot {
            pools: vec![pool()],
            catalogues: vec![Arc::new(catalogue())],
            nodes: nodes.collect(),
            ..Snapshot::default()
        })
    })
}

fn amount(halves: i64, pods: i64) -> Resources {
    Resources::from_iter([(Resources::CPU, HALF * halves), (Resources::PODS, pods)])
}

fn pool() -> Pool {
    let mut pool = Pool { name: "default".to_owned(), ..Pool::default() };
    pool.disruption.policy = ConsolidationPolicy::WhenEmptyOrUnderutilized;
    pool.disruption.consolidate_after = Some(0);
    pool.disruption.budgets = Budgets { empty: 99, underutilized: 99, drifted: 99, expired: 99 };
    pool
}

fn catalogue() -> Catalogue {
    let offering = Offering {
        zone: "a".to_owned(),
        capacity_type: CapacityType::OnDemand,
        price: PRICE,
        premium: MicroDollars(0),
        available: true,
        labels: BTreeMap::new(),
        reservation: None,
    };
    let whole = amount(WHOLE, 99);
    let big = InstanceType {
        name: "big".to_owned(),
        capacity: whole.clone(),
        allocatable: whole,
        offerings: vec![offering],
        ..InstanceType::default()
    };
    Catalogue { types: vec![big], ..Catalogue::default() }
}

fn node(position: usize, pods: &[i64]) -> Node {
    let name = format!("n{position}");
    let mut used = 0;
    let fitting = pods.iter().take_while(|size| {
        used += **size;
        used <= WHOLE
    });
    let bound = fitting.enumerate().map(|(pod, size)| BoundPod {
        uid: format!("{name}-{pod}"),
        name: format!("n/{name}-{pod}"),
        reschedulable: true,
        cost: BoundPod::COST,
        shape: Arc::new(PodShape { requests: amount(*size, 1), namespace: "n".to_owned(), ..PodShape::default() }),
        ..BoundPod::default()
    });
    let bound: Vec<BoundPod> = bound.collect();
    let mut used = Resources::default();
    bound.iter().for_each(|pod| used.add(&pod.shape.requests));
    let labels = [(label::CAPACITY_TYPE, "on-demand"), (label::ZONE, "a"), (label::INSTANCE_TYPE, "big")];
    Node {
        claim: Some(format!("{name}-claim")),
        name,
        pool: Some("default".to_owned()),
        labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        instance_type: Some("big".to_owned()),
        allocatable: amount(WHOLE, 99),
        used,
        pods: bound,
        quiet_since: Some(planner::Millis::default()),
        price: Some(PRICE),
        ..Node::default()
    }
}

/// Returns how many pods of a plan's first command find no capacity with kube-scheduler's placement, and the stated savings.
pub fn left_over(snapshot: &Snapshot, plan: &Plan) -> Option<(usize, MicroDollars)> {
    let first: &PlannedCommand = plan.moves.iter().find(|it| it.reason == CommandReason::Underutilized)?;
    let going = |name: &str| first.nodes.iter().any(|leaver| leaver.node == name);
    let cpu = |pod: &BoundPod| pod.shape.requests.get(Resources::CPU);
    let (gone, there): (Vec<&Arc<Node>>, Vec<&Arc<Node>>) = snapshot.nodes.iter().partition(|node| going(&node.name));
    let mut left: Vec<i64> = there.iter().map(|node| WHOLE * HALF - node.used.get(Resources::CPU)).collect();
    left.extend(first.replacements.iter().map(|_| WHOLE * HALF));
    let mut sizes: BTreeMap<Reverse<i64>, usize> = BTreeMap::new();
    gone.iter().flat_map(|node| &node.pods).for_each(|pod| *sizes.entry(Reverse(cpu(pod))).or_default() += 1);
    let mut over = 0;
    for (Reverse(size), count) in sizes {
        for _ in 0..count {
            match left.iter_mut().max().filter(|left| **left >= size) {
                Some(emptiest) => *emptiest -= size,
                None => over += 1,
            }
        }
    }
    Some((over, first.saving?))
}

/// Price of one node.
pub const NODE: MicroDollars = PRICE;
