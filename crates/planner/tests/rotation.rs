//! Rotation: a cluster that is too large for one plan to try all of its nodes together. Nodes that wait for a later part have
//! this verdict. The plan cache is valid no longer than the current part, and every part is covered.

use std::sync::Arc;

use planner::{
    BoundPod, Budgets, CapacityType, Catalogue, CommandReason, Disruption, InstanceType, MicroDollars, Millis, Node,
    NodeVerdict, Offering, PlanCache, PodShape, Pool, Requirement, Resources, Snapshot, Stage, check, plan,
};
use planner::{Operator, label};

const NOW: i64 = 1_800_000_000_000;
/// Time for which plans cover the same part: more than the 15 s for which every plan must contain a command.
const PART: i64 = 30_000;
const POOL: &str = "karpenter.sh/nodepool";
const PAIR: [&str; 2] = ["b-0", "b-1"];

fn amounts(cpu: i64, pods: i64) -> Resources {
    Resources::from_iter([(Resources::CPU, cpu), (Resources::MEMORY, cpu << 20), (Resources::PODS, pods)])
}

fn kind(name: &str, cpu: i64, price: i64) -> InstanceType {
    let resources = amounts(cpu, 20);
    InstanceType {
        name: name.to_owned(),
        capacity: resources.clone(),
        allocatable: resources,
        offerings: vec![Offering {
            zone: "a".to_owned(),
            capacity_type: CapacityType::OnDemand,
            price: MicroDollars(price),
            premium: MicroDollars(0),
            available: true,
            labels: [].into(),
            reservation: None,
        }],
        ..InstanceType::default()
    }
}

fn pool(name: &str, types: &[&str]) -> Pool {
    let disruption = Disruption { consolidate_after: Some(1000), budgets: Budgets::UNLIMITED, ..Disruption::default() };
    let requirements = vec![Requirement::new(label::INSTANCE_TYPE, Operator::In, types.iter().copied())];
    let labels = [(POOL.to_owned(), name.to_owned())].into();
    Pool { name: name.to_owned(), requirements, labels, disruption, ..Pool::default() }
}

fn node(pool: &str, number: usize, kind: &InstanceType, pods: &[i64]) -> Node {
    let name = format!("{pool}-{number}");
    let mut node = Node {
        claim: Some(format!("{name}-claim")),
        pool: Some(pool.to_owned()),
        stage: Stage::Initialized,
        labels: [(POOL.to_owned(), pool.to_owned())].into(),
        instance_type: Some(kind.name.clone()),
        allocatable: kind.allocatable.clone(),
        quiet_since: Some(Millis(0)),
        price: Some(kind.offerings[0].price),
        name,
        ..Node::default()
    };
    let selector = vec![Requirement::new(POOL, Operator::In, [pool])];
    for (position, cpu) in pods.iter().enumerate() {
        let name = format!("n/{}-{position}", node.name);
        let shape = PodShape { requests: amounts(*cpu, 1), selector: selector.clone(), ..PodShape::default() };
        node.used.add(&shape.requests);
        let shape = Arc::new(shape);
        node.pods.push(BoundPod { uid: name.clone(), name, reschedulable: true, shape, ..BoundPod::default() });
    }
    node
}

/// Creates a cluster with two NodePools. `a` has 1,000 nodes with much waste that cannot be merged; two nodes of `b` with less
/// waste could be merged.
fn cluster(now: i64) -> Snapshot {
    let (large, medium, small) =
        (kind("large", 10_000, 100_000), kind("medium", 6000, 60_000), kind("small", 4000, 40_000));
    let mut nodes: Vec<Node> = (0..1000).map(|number| node("a", number, &large, &[6000])).collect();
    nodes.extend((0..2).map(|number| node("b", number, &small, &[1500, 1500])));
    Snapshot {
        now: Millis(now),
        pools: vec![pool("a", &["large"]), pool("b", &["medium", "small"])],
        catalogues: vec![Arc::new(Catalogue {
            name: "default".to_owned(),
            types: vec![large, medium, small],
            ..Catalogue::default()
        })],
        nodes: nodes.into_iter().map(Arc::new).collect(),
        ..Snapshot::default()
    }
}

#[test]
fn plan_merges_nodes_when_rotation_reaches_them() {
    let mut merged = Vec::new();
    for part in 0..9 {
        let snapshot = cluster(NOW + part * PART);
        let decided = plan(&snapshot);
        assert_eq!(check(&snapshot, &decided), Vec::new());
        let leavers = decided.moves.iter().flat_map(|it| &it.nodes);
        let mut goes: Vec<&str> = leavers.map(|leaver| leaver.node.as_str()).collect();
        goes.sort_unstable();
        let verdict = |name: &str| decided.report.nodes.iter().find(|(node, _)| node == name).unwrap().1.clone();
        if goes.is_empty() {
            assert!(PAIR.iter().all(|name| verdict(name) == NodeVerdict::ByTurns { pods: 2 }), "part {part}");
            let rest = PlanCache::new(&snapshot, &decided).unwrap();
            assert_eq!(rest.until(), Millis(NOW + (part + 1) * PART), "part {part}");
        } else {
            assert_eq!(goes, PAIR, "part {part}");
            assert_eq!(verdict(PAIR[0]), NodeVerdict::Remove(CommandReason::Underutilized));
        }
        merged.push(!goes.is_empty());
        // All plans during one part are equal, so a command that was found can pass validation.
        let later = Snapshot { now: Millis(snapshot.now.0 + PART - 1), ..snapshot.clone() };
        assert_eq!(plan(&later), decided, "part {part}");
    }
    assert!(merged.contains(&true) && merged.contains(&false), "{merged:?}");
}

/// One plan covers this cluster, so its verdicts are final at once.
#[test]
fn plan_needs_no_rotation_when_the_cluster_is_small() {
    let mut snapshot = cluster(NOW);
    snapshot.nodes.truncate(200);
    let decided = plan(&snapshot);
    assert!(decided.moves.is_empty());
    let others: Vec<_> =
        decided.report.nodes.iter().filter(|(_, verdict)| *verdict != NodeVerdict::Cheapest { pods: 1 }).collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(PlanCache::new(&snapshot, &decided).unwrap().until() > Millis(NOW + 4 * PART));
}
