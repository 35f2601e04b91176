//! Validation of inter-pod constraints: a valid plan built without the solver, with one violation in each case.
//!
//! Zones `a` and `b` have a node each, `c` gets a launch. Web pods are spread over the zones, databases have anti-affinity by
//! host, and a cache has affinity to a database's zone. One pod binds a port, and one has a volume.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use planner::{
    BoundPod, CapacityType, Catalogue, Daemon, HostPort, InstanceType, Launch, Leaving, MicroDollars, Node, Nomination,
    Offering, Operator, PlacementReason, Plan, Pod, PodShape, PodTerm, PodVerdict, Policy, Pool, Purpose, Report,
    Requirement, Reservation, Resources, Selector, Snapshot, Spread, Taint, VolumeNeed, check, label,
};

const WEB: usize = 0;
const DATABASE: usize = 1;
const CACHE: usize = 2;
const PORT: usize = 3;
const VOLUME: usize = 4;
const DRIVER: &str = "ebs.csi.aws.com";

/// Positions of the pods.
const WEBS: [usize; 3] = [0, 1, 2];
const DATABASES: [usize; 2] = [3, 4];
const CACHES: usize = 5;
const PORTS: usize = 6;
const VOLUMES: usize = 7;

fn small() -> Resources {
    Resources::from_iter([(Resources::CPU, 100), (Resources::PODS, 1)])
}

fn app(name: &str) -> Selector {
    Selector(vec![Requirement::new("app", Operator::In, [name])])
}

fn term(key: &str, name: &str) -> PodTerm {
    PodTerm { key: key.to_owned(), selector: Some(app(name)), ..PodTerm::default() }
}

fn labelled(name: &str) -> PodShape {
    PodShape {
        requests: small(),
        namespace: "default".to_owned(),
        labels: BTreeMap::from([("app".to_owned(), name.to_owned())]),
        ..PodShape::default()
    }
}

fn spread(key: &str, name: &str) -> Spread {
    Spread {
        key: key.to_owned(),
        max_skew: 1,
        min_domains: None,
        selector: Some(app(name)),
        hard: true,
        honor_affinity: true,
        honor_taints: false,
    }
}

fn shapes() -> Vec<Arc<PodShape>> {
    let port = HostPort { ip: "0.0.0.0".to_owned(), port: 80, protocol: "TCP".to_owned() };
    let here = vec![Requirement::new(label::ZONE, Operator::In, ["b"])];
    let volume = VolumeNeed { driver: Some(DRIVER.to_owned()), alternatives: vec![here] };
    let shapes = [
        PodShape { spread: vec![spread(label::ZONE, "web")], ..labelled("web") },
        PodShape { apart: vec![term(label::HOSTNAME, "database")], ..labelled("database") },
        PodShape { near: vec![term(label::ZONE, "database")], ..labelled("cache") },
        PodShape { ports: vec![port], ..labelled("port") },
        PodShape { volumes: vec![volume], ..labelled("volume") },
    ];
    shapes.into_iter().map(Arc::new).collect()
}

fn node(zone: &str) -> Arc<Node> {
    let name = format!("node-{zone}");
    let labels = [(label::ZONE, zone), (label::HOSTNAME, &name)].map(|(key, value)| (key.into(), value.into()));
    let allocatable = Resources::from_iter([(Resources::CPU, 4000), (Resources::PODS, 20)]);
    let attach_limits = BTreeMap::from([(DRIVER.to_owned(), 2)]);
    Arc::new(Node { name, labels: labels.into(), allocatable, attach_limits, ..Node::default() })
}

fn offering(zone: &str, capacity_type: CapacityType, price: i64) -> Offering {
    let (zone, labels) = (zone.to_owned(), BTreeMap::new());
    Offering {
        zone,
        capacity_type,
        price: MicroDollars(price),
        premium: MicroDollars(0),
        available: true,
        labels,
        reservation: None,
    }
}

fn kind(name: &str, price: i64) -> InstanceType {
    let size = Resources::from_iter([(Resources::CPU, 2000), (Resources::PODS, 10)]);
    InstanceType {
        name: name.to_owned(),
        capacity: size.clone(),
        allocatable: size,
        offerings: ["a", "b", "c"].map(|zone| offering(zone, CapacityType::OnDemand, price)).into(),
        ..InstanceType::default()
    }
}

fn pod(shape: usize, number: usize) -> Pod {
    let name = format!("default/{shape}-{number}");
    let claims = if shape == VOLUME { vec![format!("{name}-data")] } else { Vec::new() };
    Pod { uid: name.clone(), name, shape, claims, ..Pod::default() }
}

fn zones(zones: &[&str]) -> Requirement {
    Requirement::new(label::ZONE, Operator::In, zones.iter().copied())
}

fn example() -> (Snapshot, Plan) {
    let pods = [(WEB, 0), (WEB, 1), (WEB, 2), (DATABASE, 0), (DATABASE, 1), (CACHE, 0), (PORT, 0), (VOLUME, 0)];
    let types = vec![kind("one.large", 10), kind("two.large", 12)];
    let well_known = [label::ZONE, label::CAPACITY_TYPE, label::INSTANCE_TYPE].map(str::to_owned);
    let snapshot = Snapshot {
        policy: Policy { well_known: well_known.into(), ..Policy::default() },
        pools: vec![Pool { name: "pool".to_owned(), ..Pool::default() }],
        catalogues: vec![Arc::new(Catalogue { name: "class".to_owned(), types, ..Catalogue::default() })],
        nodes: vec![node("a"), node("b")],
        shapes: shapes(),
        pods: pods.map(|(shape, number)| pod(shape, number)).into(),
        ..Snapshot::default()
    };
    let launch = Launch {
        pool: "pool".to_owned(),
        requirements: vec![zones(&["c"]), Requirement::new(label::CAPACITY_TYPE, Operator::In, ["on-demand"])],
        instance_types: Arc::new(vec!["one.large".to_owned(), "two.large".to_owned()]),
        requests: small(),
        min_instance_types: None,
        pods: vec![WEBS[2]],
        price: MicroDollars(10),
        commitment: None,
        purpose: Purpose::Provision,
        min_values_relaxed: false,
    };
    let report = Report { pods: vec![PodVerdict::Postponed; 8], order: (0..8).collect(), ..Report::default() };
    let mut plan = Plan { launches: vec![launch], report, ..Plan::default() };
    plan.report.pods[WEBS[2]] = PodVerdict::Launch { launch: 0, why: PlacementReason::Opened, dropped: Vec::new() };
    let places = [(WEBS[0], "a"), (WEBS[1], "b"), (DATABASES[0], "a"), (DATABASES[1], "b"), (CACHES, "b")];
    for (pod, zone) in places.into_iter().chain([(PORTS, "a"), (VOLUMES, "b")]) {
        sent(&mut plan, pod, zone);
    }
    (snapshot, plan)
}

/// Assigns the pod to the node of a zone, in place of its former destination.
fn sent(plan: &mut Plan, pod: usize, zone: &str) {
    let node = format!("node-{zone}");
    plan.nominations.retain(|it| it.pod != pod);
    plan.launches[0].pods.retain(|it| *it != pod);
    plan.nominations.push(Nomination { pod, node: node.clone() });
    plan.report.pods[pod] = PodVerdict::Existing { node, why: PlacementReason::Room, dropped: Vec::new() };
}

/// Assigns the pod to the launch.
fn launched(plan: &mut Plan, pod: usize) {
    plan.nominations.retain(|it| it.pod != pod);
    plan.launches[0].pods.push(pod);
    plan.launches[0].requests.add(&small());
    plan.report.pods[pod] = PodVerdict::Launch { launch: 0, why: PlacementReason::Opened, dropped: Vec::new() };
}

fn bound(snapshot: &mut Snapshot, node: usize, shape: PodShape) {
    let uid = format!("bound-{node}-{}", snapshot.nodes[node].pods.len());
    let pod = BoundPod { name: uid.clone(), uid, shape: Arc::new(shape), ..BoundPod::default() };
    Arc::make_mut(&mut snapshot.nodes[node]).pods.push(pod);
}

fn shape(snapshot: &mut Snapshot, shape: usize) -> &mut PodShape {
    Arc::make_mut(&mut snapshot.shapes[shape])
}

fn types(snapshot: &mut Snapshot) -> &mut Vec<InstanceType> {
    &mut Arc::make_mut(&mut snapshot.catalogues[0]).types
}

fn with_volume(claim: &str) -> BoundPod {
    let volume = VolumeNeed { driver: Some(DRIVER.to_owned()), alternatives: Vec::new() };
    let shape = Arc::new(PodShape { volumes: vec![volume], ..PodShape::default() });
    BoundPod { uid: claim.to_owned(), shape, claims: vec![claim.to_owned()], ..BoundPod::default() }
}

/// Makes all offerings of the first type spot, and adds this many similar types.
fn spot(snapshot: &mut Snapshot, plan: &mut Plan, more: usize) {
    snapshot.policy.least_spot_types = 3;
    plan.launches[0].requirements.truncate(1);
    let types = types(snapshot);
    types[0].offerings.iter_mut().for_each(|it| it.capacity_type = CapacityType::Spot);
    types.extend((0..more).map(|it| kind(&format!("z{it}.large"), 20)));
}

fn reserved(snapshot: &mut Snapshot, position: usize, id: &str, remaining: u32) {
    let reservation = Some(Reservation { id: id.to_owned(), remaining });
    let offering = Offering { reservation, ..offering("c", CapacityType::Reserved, 10) };
    types(snapshot)[position].offerings.push(offering);
}

fn only_reserved(plan: &mut Plan) {
    plan.launches[0].requirements[1] = Requirement::new(label::CAPACITY_TYPE, Operator::In, ["reserved"]);
}

fn static_launch(plan: &Plan) -> Launch {
    Launch { pods: Vec::new(), requests: Resources::default(), purpose: Purpose::Static, ..plan.launches[0].clone() }
}

fn min_values(snapshot: &mut Snapshot, asked: u32) {
    let any = Requirement::new(label::INSTANCE_TYPE, Operator::Exists, [""; 0]);
    snapshot.pools[0].requirements.push(Requirement { min_values: Some(asked), ..any });
}

fn findings(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    check(snapshot, plan).iter().map(ToString::to_string).collect()
}

type Mutation = fn(&mut Snapshot, &mut Plan);

/// Rows: a part of the expected finding, and the change of the valid plan.
const INVALID: [(&str, Mutation); 38] = [
    ("its order does not name every placed pod once", |_, plan| plan.report.order.truncate(7)),
    ("its order does not name every placed pod once", |_, plan| plan.report.order[1] = 0),
    ("default/2-0: is not near its own", |_, plan| plan.report.order.swap(DATABASES[1], CACHES)),
    ("default/2-0: is not near its own", |_, plan| launched(plan, CACHES)),
    ("default/2-0: is not near its own", |snapshot, _| shape(snapshot, CACHE).namespace = "other".to_owned()),
    ("default/2-0: is not near its own", |snapshot, _| {
        shape(snapshot, CACHE).near.push(term(label::ZONE, "nobody"));
    }),
    ("default/2-0: is not near its own", |snapshot, _| shape(snapshot, CACHE).near[0].key = "rack".to_owned()),
    ("default/1-1: meets pods on node node-a", |_, plan| {
        sent(plan, DATABASES[1], "a");
        sent(plan, CACHES, "a");
    }),
    ("default/1-1: is not borne by pods on node node-a", |_, plan| {
        sent(plan, DATABASES[1], "a");
        sent(plan, CACHES, "a");
    }),
    ("default/1-1: is not borne by pods on node node-b", |snapshot, _| {
        bound(snapshot, 1, PodShape { apart: vec![term(label::ZONE, "database")], ..labelled("hermit") });
    }),
    ("default/1-0: meets pods on node node-a", |snapshot, _| bound(snapshot, 0, labelled("database"))),
    ("default/0-2: is spread badly on node node-a: skew 2", |_, plan| sent(plan, WEBS[2], "a")),
    ("default/0-0: is spread badly on node node-a: skew 2", |snapshot, _| bound(snapshot, 0, labelled("web"))),
    ("default/0-0: is spread badly on node node-a: skew 2", |snapshot, plan| {
        one_more_everywhere(snapshot, plan);
        shape(snapshot, WEB).spread[0].min_domains = Some(4);
    }),
    ("no label rack spread over", |snapshot, _| shape(snapshot, WEB).spread[0].key = "rack".to_owned()),
    ("launch 0: leaves topology.kubernetes.io/zone open", |_, plan| {
        plan.launches[0].requirements[0] = zones(&["b", "c"])
    }),
    ("launch 0: leaves topology.kubernetes.io/zone open", |snapshot, plan| {
        plan.launches[0].requirements[0] = zones(&["b", "c"]);
        shape(snapshot, WEB).spread.clear();
        bound(snapshot, 0, PodShape { apart: vec![term(label::ZONE, "web")], ..labelled("hermit") });
        sent(plan, WEBS[0], "b");
    }),
    ("port 80 of pod default/3-0 is taken", |snapshot, _| {
        let ports = snapshot.shapes[PORT].ports.clone();
        bound(snapshot, 0, PodShape { ports, ..PodShape::default() });
        Arc::make_mut(&mut snapshot.nodes[0]).pods[0].ending = true;
    }),
    ("node node-a: port 80 of pod", |snapshot, _| {
        shape(snapshot, DATABASE).ports =
            vec![HostPort { ip: "10.0.0.1".to_owned(), ..snapshot.shapes[PORT].ports[0].clone() }];
    }),
    ("node node-a: port 80 of pod", |snapshot, _| daemon(snapshot, "a")),
    ("launch 0: port 80 of pod", |snapshot, plan| {
        daemon(snapshot, "c");
        launched(plan, PORTS);
    }),
    ("node node-b: attaches 3 volumes", |snapshot, _| {
        Arc::make_mut(&mut snapshot.nodes[1]).pods.extend([with_volume("x"), with_volume("y")]);
    }),
    ("launch 0: type two.large attaches 1 volumes", |snapshot, plan| {
        types(snapshot)[1].attach_limits = BTreeMap::from([(DRIVER.to_owned(), 0)]);
        shape(snapshot, VOLUME).volumes[0].alternatives.clear();
        launched(plan, VOLUMES);
    }),
    ("node node-b: pod default/4-0 wants other labels", |snapshot, _| {
        shape(snapshot, VOLUME).volumes[0].alternatives = vec![vec![zones(&["c"])]];
    }),
    ("may come up in a way that does not suit pod default/4-0", |_, plan| launched(plan, VOLUMES)),
    ("may come up in a way that does not suit pod default/0-2", |snapshot, plan| {
        let mine = [zones(&["c"]), Requirement::new(label::CAPACITY_TYPE, Operator::In, ["spot"])];
        shape(snapshot, WEB).affinity = vec![mine.to_vec(), vec![zones(&["a", "b"])]];
        types(snapshot)[0].offerings.push(offering("c", CapacityType::Spot, 10));
        plan.launches[0].requirements.truncate(1);
    }),
    ("reservation r-1: is drawn on 1 times, has 0", |snapshot, plan| {
        (0..2).for_each(|it| reserved(snapshot, it, "r-1", 0));
        only_reserved(plan);
    }),
    ("may draw on any of the reservations", |snapshot, plan| {
        (0..2).for_each(|it| reserved(snapshot, it, &format!("r-{it}"), 1));
        only_reserved(plan);
    }),
    ("may draw on a reservation or not", |snapshot, plan| {
        reserved(snapshot, 0, "r-1", 1);
        plan.launches[0].requirements.truncate(1);
    }),
    ("pool pool: is static and gets nodes for pods", |snapshot, _| snapshot.pools[0].replicas = Some(1)),
    ("gets 1 nodes for its replicas, 0 are missing", |snapshot, plan| {
        (snapshot.pools[0].replicas, snapshot.pools[0].running) = (Some(2), 2);
        plan.launches.push(static_launch(plan));
    }),
    ("gets 1 nodes for its replicas, 0 are missing", |_, plan| plan.launches.push(static_launch(plan))),
    ("nodes may reach 2 of 1", |snapshot, plan| {
        snapshot.pools[0].limits = Some(Resources::from_iter([(Resources::NODES, 1)]));
        plan.launches.push(static_launch(plan));
    }),
    ("may be spot and lists 2 types, 3 of 24 were due", |snapshot, plan| spot(snapshot, plan, 22)),
    ("states minValues None for node.kubernetes.io/instance-type, 2 is true", |snapshot, _| min_values(snapshot, 2)),
    ("leaves only 2 values", |snapshot, plan| {
        min_values(snapshot, 3);
        plan.launches[0].min_instance_types = Some(3);
    }),
    ("says that minValues was lowered without need", |_, plan| plan.launches[0].min_values_relaxed = true),
    ("types are not cheapest first", |snapshot, _| types(snapshot)[1].performance = Some(1250)),
];

/// Adds bound pods; the pod of the third zone is then bound first.
fn one_more_everywhere(snapshot: &mut Snapshot, plan: &mut Plan) {
    (0..2).for_each(|node| bound(snapshot, node, labelled("web")));
    plan.report.order.swap(WEBS[0], WEBS[2]);
}

/// Adds a DaemonSet in one zone that uses the port.
fn daemon(snapshot: &mut Snapshot, zone: &str) {
    let shape = PodShape { selector: vec![zones(&[zone])], ..PodShape::clone(&snapshot.shapes[PORT]) };
    snapshot.daemons.push(Daemon { name: "kube-system/proxy".to_owned(), shape });
}

/// Changes that keep the plan valid.
const VALID: [(&str, Mutation); 20] = [
    ("as it is", |_, _| {}),
    ("another address", |snapshot, _| {
        shape(snapshot, PORT).ports[0].ip = "10.0.0.2".to_owned();
        shape(snapshot, DATABASE).ports =
            vec![HostPort { ip: "10.0.0.1".to_owned(), ..snapshot.shapes[PORT].ports[0].clone() }];
    }),
    ("a claim that is attached already", |snapshot, _| {
        let node = Arc::make_mut(&mut snapshot.nodes[1]);
        node.pods.extend([with_volume("default/4-0-data"), with_volume("x")]);
    }),
    ("too many attached, and no more", |snapshot, _| {
        let node = Arc::make_mut(&mut snapshot.nodes[0]);
        node.pods.extend(["x", "y", "z"].map(with_volume));
    }),
    ("a terminating pod does not count", |snapshot, _| {
        bound(snapshot, 0, labelled("database"));
        bound(snapshot, 0, labelled("web"));
        bound(snapshot, 0, PodShape { apart: vec![term(label::ZONE, "database")], ..labelled("hermit") });
        Arc::make_mut(&mut snapshot.nodes[0]).pods.iter_mut().for_each(|pod| pod.ending = true);
    }),
    ("a pod that moves does not count where it was", |snapshot, _| {
        bound(snapshot, 0, labelled("database"));
        Arc::make_mut(&mut snapshot.nodes[0]).pods[0].uid = snapshot.pods[DATABASES[0]].uid.clone();
    }),
    ("a leaving node is no domain", |snapshot, plan| {
        let leaving = Node { leaving: Some(Leaving::Deleting), ..Node::clone(&node("d")) };
        snapshot.nodes.push(Arc::new(leaving));
        (0..2).for_each(|it| bound(snapshot, it, labelled("web")));
        sent(plan, WEBS[2], "a");
        plan.launches.clear();
        plan.report.order = vec![1, 2, 0, 3, 4, 5, 6, 7];
        snapshot.pods[WEBS[0]].shape = PORT;
        sent_without_launch(plan, WEBS[0], "b");
    }),
    ("the first of its kind", |snapshot, plan| {
        shape(snapshot, CACHE).near = vec![term(label::ZONE, "cache")];
        sent(plan, CACHES, "a");
    }),
    ("on the same host, whatever its zone", |snapshot, plan| {
        shape(snapshot, CACHE).near = vec![term(label::HOSTNAME, "web")];
        launched(plan, CACHES);
    }),
    ("a namespace that is named", |snapshot, _| {
        let cache = shape(snapshot, CACHE);
        cache.namespace = "other".to_owned();
        cache.near[0].namespaces = vec!["default".to_owned()];
    }),
    ("a namespace by its labels", |snapshot, _| {
        let cache = shape(snapshot, CACHE);
        cache.namespace = "other".to_owned();
        cache.near[0].namespace_selector = Some(Selector(vec![Requirement::new("kind", Operator::In, ["main"])]));
        let labels = BTreeMap::from([("kind".to_owned(), "main".to_owned())]);
        snapshot.namespaces.insert("default".to_owned(), labels);
    }),
    ("a spread that selects nothing", |snapshot, plan| {
        shape(snapshot, WEB).spread[0].selector = None;
        sent(plan, WEBS[1], "a");
    }),
    ("a second pod in every zone", one_more_everywhere),
    ("a soft spread", |snapshot, plan| {
        shape(snapshot, WEB).spread[0].hard = false;
        sent(plan, WEBS[1], "a");
    }),
    ("a domain that affinity rules out", |snapshot, _| {
        shape(snapshot, WEB).selector = vec![zones(&["a", "b", "c"])];
        snapshot.nodes.push(node("d"));
        bound(snapshot, 0, labelled("web"));
        bound(snapshot, 1, labelled("web"));
        shape(snapshot, WEB).spread[0].max_skew = 2;
    }),
    ("a domain that a taint rules out", |snapshot, _| {
        let taint = Taint { key: "k".to_owned(), value: String::new(), effect: planner::Effect::NoSchedule };
        snapshot.nodes.push(Arc::new(Node { taints: vec![taint], ..Node::clone(&node("d")) }));
        let spread = &mut shape(snapshot, WEB).spread[0];
        (spread.honor_taints, spread.min_domains) = (true, Some(3));
    }),
    ("one reservation that lasts", |snapshot, plan| {
        (0..2).for_each(|it| reserved(snapshot, it, "r-1", 1));
        only_reserved(plan);
    }),
    ("a static pool's node", |snapshot, plan| {
        let pool = Pool { name: "kept".to_owned(), replicas: Some(3), running: 2, ..Pool::default() };
        snapshot.pools.push(pool);
        plan.launches.push(Launch { pool: "kept".to_owned(), ..static_launch(plan) });
    }),
    ("fewer spot types than wanted, since there are few", |snapshot, plan| spot(snapshot, plan, 13)),
    ("minValues as low as they had to be", |snapshot, plan| {
        snapshot.policy.min_values = planner::MinValuesPolicy::BestEffort;
        min_values(snapshot, 3);
        plan.launches[0].min_values_relaxed = true;
        plan.launches[0].min_instance_types = Some(2);
    }),
];

/// Like [`sent`], for a plan without launches.
fn sent_without_launch(plan: &mut Plan, pod: usize, zone: &str) {
    let node = format!("node-{zone}");
    plan.nominations.retain(|it| it.pod != pod);
    plan.nominations.push(Nomination { pod, node: node.clone() });
    plan.report.pods[pod] = PodVerdict::Existing { node, why: PlacementReason::Room, dropped: Vec::new() };
}

#[test]
fn check_reports_each_violation_of_inter_pod_constraints() {
    let mut overlooked = Vec::new();
    for (position, (expected, mutate)) in INVALID.into_iter().enumerate() {
        let (mut snapshot, mut plan) = example();
        mutate(&mut snapshot, &mut plan);
        let found = findings(&snapshot, &plan);
        if !found.iter().any(|it| it.contains(expected)) {
            overlooked.push(format!("row {position}, {expected}: found only {found:#?}"));
        }
    }
    assert!(overlooked.is_empty(), "{}", overlooked.join("\n"));
}

#[test]
fn check_reports_nothing_for_valid_variants() {
    for (what, change) in VALID {
        let (mut snapshot, mut plan) = example();
        change(&mut snapshot, &mut plan);
        assert_eq!(findings(&snapshot, &plan), Vec::<String>::new(), "{what}");
    }
}

#[test]
fn check_ignores_buffer_pods_for_affinity_of_other_pods() {
    let (mut snapshot, mut plan) = example();
    snapshot.pods[DATABASES[1]].holder = Some(planner::CapacityHolder::Buffer("default/spare".to_owned()));
    plan.nominations.retain(|it| it.pod != DATABASES[1]);
    let found: BTreeSet<String> = findings(&snapshot, &plan).into_iter().collect();
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found.iter().all(|it| it.contains("default/2-0: is not near its own")), "{found:#?}");
}
