//! Random clusters, small enough to shrink and varied enough to find faults.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use planner::{
    BoundPod, Budgets, CapacityType, Catalogue, Daemon, Disruption, Drifted, Effect, InstanceType, Leaving,
    MicroDollars, Millis, MinimumSavings, Node, Offering, Operator, Pod, PodShape, Policy, Pool, Requirement,
    Resources, Snapshot, Stage, Taint, Toleration, TolerationOperator, label,
};
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, option, sample};

pub const ARCH: &str = "kubernetes.io/arch";
pub const CPUS: &str = "karpenter.k8s.aws/instance-cpu";
const POOL: &str = "karpenter.sh/nodepool";
pub const NOW: i64 = 1_000_000;

/// Snapshot as an argument of test functions.
#[derive(Clone, Debug)]
pub struct Cluster(pub Snapshot);

pub fn amounts(cpu: i64, memory: i64, pods: i64) -> Resources {
    Resources::from_iter([(Resources::CPU, cpu), (Resources::MEMORY, memory), (Resources::PODS, pods)])
}

fn offering() -> impl Strategy<Value = (i64, bool, bool)> {
    (1i64..20, any::<bool>(), proptest::bool::weighted(0.8))
}

fn instance_type() -> impl Strategy<Value = InstanceType> {
    let cpus = sample::select(vec![1i64, 2, 4, 8]);
    let arch = sample::select(vec!["amd64", "amd64", "arm64"]);
    (cpus, 1i64..5, arch, collection::vec(offering(), 1..4)).prop_map(|(cpus, memory, arch, offerings)| {
        let capacity = amounts(cpus * 1000, cpus * memory, 2 + 4 * cpus);
        let mut allocatable = capacity.clone();
        allocatable.subtract(&amounts(100, 0, 0));
        let offer = |(position, (price, spot, available)): (usize, (i64, bool, bool))| Offering {
            zone: ["a", "b", "c"][position].to_owned(),
            capacity_type: if spot { CapacityType::Spot } else { CapacityType::OnDemand },
            price: MicroDollars(price * cpus),
            premium: MicroDollars(0),
            available,
            labels: BTreeMap::new(),
            reservation: None,
        };
        InstanceType {
            name: String::new(),
            labels: BTreeMap::from([(ARCH.into(), vec![arch.into()]), (CPUS.into(), vec![cpus.to_string()])]),
            capacity,
            allocatable,
            offerings: offerings.into_iter().enumerate().map(offer).collect(),
            ..InstanceType::default()
        }
    })
}

/// Returns requirements for NodePools, pods and DaemonSets: well-known keys, a custom one, and the hostname.
fn requirement() -> impl Strategy<Value = Requirement> {
    let zones = sample::subsequence(vec!["a", "b", "c", "d"], 1..4);
    prop_oneof![
        Just(Requirement::new(ARCH, Operator::In, ["amd64"])),
        Just(Requirement::new(ARCH, Operator::NotIn, ["amd64"])),
        zones.prop_map(|zones| Requirement::new(label::ZONE, Operator::In, zones)),
        Just(Requirement::new(label::ZONE, Operator::NotIn, ["a"])),
        (0i64..8).prop_map(|it| Requirement::new(CPUS, Operator::Gt, [it.to_string()])),
        (1i64..9).prop_map(|it| Requirement::new(CPUS, Operator::Lt, [it.to_string()])),
        Just(Requirement::new(label::CAPACITY_TYPE, Operator::In, ["spot"])),
        Just(Requirement::new("team", Operator::In, ["x"])),
        Just(Requirement::new("team", Operator::NotIn, ["x"])),
        Just(Requirement::new("team", Operator::Exists, [""; 0])),
        Just(Requirement::new("team", Operator::DoesNotExist, [""; 0])),
        Just(Requirement::new(label::HOSTNAME, Operator::NotIn, ["node-0"])),
    ]
}

fn taint() -> impl Strategy<Value = Taint> {
    let effect = sample::select(vec![Effect::NoSchedule, Effect::NoExecute, Effect::PreferNoSchedule]);
    effect.prop_map(|effect| Taint { key: "only".to_owned(), value: "x".to_owned(), effect })
}

fn toleration() -> impl Strategy<Value = Toleration> {
    let key = option::of(Just("only".to_owned()));
    let effect = option::of(Just(Effect::NoSchedule));
    let operator = TolerationOperator::Exists;
    (key, effect).prop_map(move |(key, effect)| Toleration { key, operator, value: String::new(), effect })
}

fn shape() -> impl Strategy<Value = PodShape> {
    let sizes = sample::select(vec![100i64, 500, 900, 1000, 1900, 3000, 7900]);
    let selector = collection::vec(requirement(), 0..2);
    let affinity = collection::vec(collection::vec(requirement(), 1..3), 0..3);
    (sizes, 0i64..8, selector, affinity, collection::vec(toleration(), 0..2)).prop_map(
        |(cpu, memory, selector, affinity, tolerations)| PodShape {
            requests: amounts(cpu, memory, 1),
            selector,
            affinity,
            tolerations,
            ..PodShape::default()
        },
    )
}

fn daemon() -> impl Strategy<Value = PodShape> {
    let affinity = collection::vec(collection::vec(requirement(), 1..2), 0..2);
    (sample::select(vec![100i64, 900]), affinity, collection::vec(toleration(), 0..2)).prop_map(
        |(cpu, affinity, tolerations)| PodShape {
            requests: amounts(cpu, 1, 1),
            affinity,
            tolerations,
            ..PodShape::default()
        },
    )
}

fn pool() -> impl Strategy<Value = Pool> {
    let requirements =
        collection::vec(requirement().prop_filter("a pool names no host", |it| it.key != label::HOSTNAME), 0..3);
    let limits = option::weighted(0.4, (0i64..20, 0i64..4));
    let disruption = (option::of(0i64..2000), 0u32..3);
    let min_values = option::weighted(0.2, 1u32..4);
    (0i32..3, requirements, collection::vec(taint(), 0..2), limits, disruption, min_values).prop_map(
        |(weight, mut requirements, taints, limits, (consolidate_after, empty_budget), min_values)| {
            if min_values.is_some() {
                let any = Requirement::new(label::INSTANCE_TYPE, Operator::Exists, [""; 0]);
                requirements.push(Requirement { min_values, ..any });
            }
            Pool {
                weight,
                requirements,
                taints,
                limits: limits.map(|(cpu, nodes)| {
                    Resources::from_iter([(Resources::CPU, cpu * 1000), (Resources::NODES, nodes)])
                }),
                disruption: Disruption {
                    consolidate_after,
                    budgets: budgets_of(empty_budget),
                    worth: MinimumSavings { share: 0, per_pod: MicroDollars(0), ..MinimumSavings::default() },
                    ..Disruption::default()
                },
                ..Pool::default()
            }
        },
    )
}

/// Random part of a node; its type and NodePool decide the rest.
#[derive(Clone, Debug)]
struct Draft {
    kind: usize,
    pool: Option<usize>,
    stage: Stage,
    leaving: bool,
    cordoned: bool,
    used: Option<i64>,
    daemon_used: bool,
    /// `None` is a node whose claim is not marked as initialized yet.
    quiet: Option<i64>,
    held: bool,
    nominated: bool,
    tainted: Option<Taint>,
}

fn draft() -> impl Strategy<Value = Draft> {
    let stage = sample::select(vec![Stage::Initialized, Stage::Initialized, Stage::Registered, Stage::InFlight]);
    let rare = || proptest::bool::weighted(0.15);
    let flags = (rare(), rare(), rare(), rare(), any::<bool>());
    let used = option::of(100i64..2000);
    (
        any::<usize>(),
        option::weighted(0.8, any::<usize>()),
        stage,
        flags,
        used,
        option::weighted(0.85, 0i64..3000),
        option::weighted(0.2, taint()),
    )
        .prop_map(
            |(kind, pool, stage, (leaving, cordoned, held, nominated, daemon_used), used, quiet, tainted)| Draft {
                kind,
                pool,
                stage,
                leaving,
                cordoned,
                used,
                daemon_used,
                quiet,
                held,
                nominated,
                tainted,
            },
        )
}

/// Returns clusters of a few types, NodePools, nodes, DaemonSets and a dozen pods.
pub fn cluster() -> impl Strategy<Value = Cluster> {
    let types = collection::vec(instance_type(), 1..6);
    let pools = collection::vec(pool(), 1..4);
    let nodes = collection::vec(draft(), 0..5);
    let shapes = collection::vec(shape(), 1..5);
    let pods = collection::vec((any::<usize>(), 0i64..3), 0..12);
    (types, pools, nodes, shapes, pods, collection::vec(daemon(), 0..3), 1usize..5).prop_map(
        |(types, pools, nodes, shapes, pods, daemons, max_instance_types)| {
            let mut snapshot = Snapshot {
                now: Millis(NOW),
                policy: Policy {
                    max_instance_types,
                    well_known: well_known(),
                    least_spot_types: 0,
                    ..Policy::default()
                },
                catalogues: vec![catalogue(types)],
                pools: named(pools),
                shapes: shapes.into_iter().map(Arc::new).collect(),
                ..Snapshot::default()
            };
            let daemon = |(position, shape)| Daemon { name: format!("daemon-{position}"), shape };
            snapshot.daemons = daemons.into_iter().enumerate().map(daemon).collect();
            for (position, draft) in nodes.into_iter().enumerate() {
                add_node(&mut snapshot, &format!("node-{position}"), &draft);
            }
            for (position, (shape, created)) in pods.into_iter().enumerate() {
                let shape = shape % snapshot.shapes.len();
                add_pod(&mut snapshot, &format!("pod-{position:02}"), shape, created);
            }
            Cluster(snapshot)
        },
    )
}

pub fn well_known() -> BTreeSet<String> {
    let keys = [ARCH, CPUS, POOL, label::ZONE, label::CAPACITY_TYPE, label::INSTANCE_TYPE, label::RESERVATION_ID];
    keys.map(str::to_owned).into()
}

fn catalogue(types: Vec<InstanceType>) -> Arc<Catalogue> {
    let name = |(position, kind)| InstanceType { name: format!("type-{position:03}"), ..kind };
    Arc::new(Catalogue {
        name: "default".to_owned(),
        types: types.into_iter().enumerate().map(name).collect(),
        ..Catalogue::default()
    })
}

pub fn named(pools: Vec<Pool>) -> Vec<Pool> {
    let mut pools = pools;
    for (position, pool) in pools.iter_mut().enumerate() {
        pool.name = format!("pool-{position}");
        pool.labels = BTreeMap::from([(POOL.to_owned(), pool.name.clone())]);
    }
    pools
}

pub fn add_pod(snapshot: &mut Snapshot, name: &str, shape: usize, created: i64) {
    let created = Millis(created);
    snapshot.pods.push(Pod { uid: name.to_owned(), name: name.to_owned(), shape, created, ..Pod::default() });
}

fn add_node(snapshot: &mut Snapshot, name: &str, draft: &Draft) {
    let types = &snapshot.catalogues[0].types;
    let kind = types[draft.kind % types.len()].clone();
    let count = snapshot.pools.len();
    let pool = draft.pool.map(|it| &mut snapshot.pools[it % count]);
    let mut labels: BTreeMap<String, String> =
        kind.labels.iter().map(|(key, values)| (key.clone(), values[0].clone())).collect();
    labels.insert(label::INSTANCE_TYPE.to_owned(), kind.name.clone());
    if draft.stage != Stage::InFlight {
        labels.insert(label::HOSTNAME.to_owned(), name.to_owned());
    }
    labels.insert(label::ZONE.to_owned(), kind.offerings[0].zone.clone());
    labels.insert(label::CAPACITY_TYPE.to_owned(), kind.offerings[0].capacity_type.as_str().to_owned());
    let mut node = Node {
        name: name.to_owned(),
        stage: if pool.is_some() { draft.stage } else { Stage::Initialized },
        leaving: draft.leaving.then_some(Leaving::Deleting),
        unschedulable: draft.cordoned,
        taints: draft.tainted.iter().cloned().collect(),
        allocatable: kind.allocatable.clone(),
        instance_type: Some(kind.name.clone()),
        quiet_since: draft.quiet.map(|quiet| Millis(NOW - quiet)),
        do_not_disrupt: draft.held,
        nominated_until: draft.nominated.then_some(Millis(NOW + 1)),
        price: Some(kind.offerings[0].price),
        drifted: draft
            .quiet
            .filter(|quiet| quiet % 4 == 1)
            .map(|quiet| Drifted { since: Millis(quiet), reason: "AMIDrift".to_owned() }),
        ..Node::default()
    };
    if let Some(pool) = pool {
        labels.extend(pool.labels.clone());
        node.claim = Some(format!("{name}-claim"));
        node.pool = Some(pool.name.clone());
        if !draft.leaving {
            pool.usage.add(&kind.capacity);
            pool.usage.add(&Resources::from_iter([(Resources::NODES, 1)]));
        }
    }
    node.labels = labels;
    if let Some(cpu) = draft.used.filter(|_| draft.stage == Stage::Initialized) {
        node.used = amounts(cpu, 1, 1);
        let shape = Arc::new(PodShape { requests: node.used.clone(), ..PodShape::default() });
        let pod = BoundPod { uid: name.into(), name: name.into(), reschedulable: true, shape, ..BoundPod::default() };
        node.pods = vec![pod];
    }
    if draft.daemon_used {
        node.used.add(&amounts(100, 1, 1));
        node.daemon_used = [("daemon-0".to_owned(), amounts(100, 1, 1))].into();
    }
    snapshot.nodes.push(Arc::new(node));
}

fn budgets_of(nodes: u32) -> Budgets {
    Budgets { empty: nodes, underutilized: nodes, drifted: nodes, expired: nodes }
}

/// Adds a pod that no node can hold.
pub fn giant(snapshot: &mut Snapshot) {
    let shape = snapshot.shapes.len();
    let requests = amounts(1_000_000, 0, 1);
    snapshot.shapes.push(Arc::new(PodShape { requests, ..PodShape::default() }));
    add_pod(snapshot, "giant", shape, 0);
}
