//! Pods that are spread over hosts: the number of hosts is the one that costs least, and kube-scheduler binds all pods in any
//! order in which the nodes start.
#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

#[path = "even_hosts/premium.rs"]
mod premium;
#[path = "even_hosts/zones.rs"]
mod zones;

use std::collections::BTreeMap;
use std::sync::Arc;

use planner::{
    BoundPod, CapacityType, Catalogue, InstanceType, MicroDollars, Millis, Node, Offering, Operator, Plan, Pod,
    PodPreference, PodShape, PodTerm, PodVerdict, Policy, Pool, PreferencePremium, Requirement, Resources, Selector,
    Snapshot, Spread, check, label, plan,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use proptest::{collection, sample};

use crate::applied;

const MIB: i64 = 1 << 20;

/// Families with their memory per vCPU in MiB and their price per vCPU.
const FAMILIES: [(&str, i64, i64); 3] = [("c", 2048, 42_500), ("m", 4096, 48_000), ("r", 8192, 63_000)];
const SIZES: [(&str, i64); 9] = [
    ("large", 2),
    ("xlarge", 4),
    ("2xlarge", 8),
    ("4xlarge", 16),
    ("8xlarge", 32),
    ("12xlarge", 48),
    ("16xlarge", 64),
    ("24xlarge", 96),
    ("48xlarge", 192),
];

fn cases(few: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let (cases, rng_seed) = if asked { (usual.cases, usual.rng_seed) } else { (few, RngSeed::Fixed(1)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..usual }
}

fn amounts(cpu: i64, mebibytes: i64, pods: i64) -> Resources {
    let memory = mebibytes * MIB;
    Resources::from_iter([(Resources::CPU, cpu), (Resources::MEMORY, memory), (Resources::PODS, pods)])
}

/// Creates an instance type with the usual overhead of kubelet and system, sold in these zones.
fn instance_type(family: (&str, i64, i64), size: (&str, i64), zones: &[&str]) -> InstanceType {
    let ((family, mebibytes, price), (size, cpus)) = (family, size);
    let offering = |zone: &&str| Offering {
        zone: (*zone).to_owned(),
        capacity_type: CapacityType::OnDemand,
        price: MicroDollars(price * cpus),
        premium: MicroDollars(0),
        available: true,
        labels: BTreeMap::new(),
        reservation: None,
    };
    InstanceType {
        name: format!("{family}.{size}"),
        capacity: amounts(cpus * 1000, cpus * mebibytes, 110),
        allocatable: amounts(cpus * 1000 - 70 - cpus * 3, cpus * mebibytes * 93 / 100 - 400, 110),
        offerings: zones.iter().map(offering).collect(),
        ..InstanceType::default()
    }
}

fn cluster() -> Snapshot {
    cluster_in(&["a"])
}

fn cluster_in(zones: &[&str]) -> Snapshot {
    let mut types: Vec<InstanceType> =
        FAMILIES.iter().flat_map(|family| SIZES.iter().map(|size| instance_type(*family, *size, zones))).collect();
    types.sort_by(|one, other| one.name.cmp(&other.name));
    let keys = [label::ZONE, label::CAPACITY_TYPE, label::INSTANCE_TYPE];
    Snapshot {
        now: Millis(1_000_000),
        policy: Policy { well_known: keys.map(str::to_owned).into(), ..Policy::default() },
        catalogues: vec![Arc::new(Catalogue { name: "default".to_owned(), types, ..Catalogue::default() })],
        pools: vec![Pool { name: "default".to_owned(), ..Pool::default() }],
        ..Snapshot::default()
    }
}

fn spread(app: &str, max_skew: u32, hard: bool) -> Spread {
    Spread {
        key: label::HOSTNAME.to_owned(),
        max_skew,
        min_domains: None,
        selector: Some(Selector(vec![Requirement::new("app", Operator::In, [app])])),
        hard,
        honor_affinity: true,
        honor_taints: false,
    }
}

fn shape(app: &str, cpu: i64, mebibytes: i64, spread: Vec<Spread>) -> PodShape {
    let labels = [("app".to_owned(), app.to_owned())].into();
    PodShape { requests: amounts(cpu, mebibytes, 1), namespace: "n".to_owned(), labels, spread, ..PodShape::default() }
}

fn add_pods(snapshot: &mut Snapshot, shape: PodShape, count: usize) {
    let app = shape.labels["app"].clone();
    snapshot.shapes.push(Arc::new(shape));
    let shape = snapshot.shapes.len() - 1;
    for pod in 0..count {
        let name = format!("{app}-{pod:03}");
        snapshot.pods.push(Pod { uid: name.clone(), name, shape, ..Pod::default() });
    }
}

/// Creates a node that exists already, with free capacity for some pods of a shape and with some bound ones.
fn add_node(snapshot: &mut Snapshot, shape: &Arc<PodShape>, bound: usize, free: i64) {
    let name = format!("node-{}", snapshot.nodes.len());
    let pod = |pod: usize| BoundPod {
        uid: format!("{name}-{pod}"),
        name: format!("{name}-{pod}"),
        shape: Arc::clone(shape),
        ..BoundPod::default()
    };
    let (mut allocatable, mut used) = (Resources::default(), Resources::default());
    (0..free).for_each(|_| allocatable.add(&shape.requests));
    for _ in 0..bound {
        allocatable.add(&shape.requests);
        used.add(&shape.requests);
    }
    let node = Node {
        name: name.clone(),
        labels: [(label::HOSTNAME.to_owned(), name.clone())].into(),
        pods: (0..bound).map(pod).collect(),
        allocatable,
        used,
        ..Node::default()
    };
    snapshot.nodes.push(Arc::new(node));
}

fn cost(plan: &Plan) -> i64 {
    plan.launches.iter().map(|launch| launch.price.0).sum()
}

fn findings(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    check(snapshot, plan).iter().map(ToString::to_string).collect()
}

fn pending(plan: &Plan) -> usize {
    let placed = |it: &&PodVerdict| matches!(it, PodVerdict::Existing { .. } | PodVerdict::Launch { .. });
    plan.report.pods.len() - plan.report.pods.iter().filter(placed).count()
}

fn times(requests: &Resources, allocatable: &Resources) -> i64 {
    requests.iter().filter(|(_, asked)| *asked > 0).map(|(name, asked)| allocatable.get(name) / asked).min().unwrap()
}

/// Returns the lowest cost of equal hosts, at least two, each with an even share of equal pods.
fn even_cost(snapshot: &Snapshot, shape: &PodShape, pods: i64) -> i64 {
    cost_of_hosts(snapshot, shape, pods, 2..=pods)
}

/// Returns the lowest cost of one of these numbers of hosts.
fn cost_of_hosts(snapshot: &Snapshot, shape: &PodShape, pods: i64, mut numbers: impl Iterator<Item = i64>) -> i64 {
    let types = &snapshot.catalogues[0].types;
    let cheapest = |load: i64| {
        let holding = types.iter().filter(|kind| times(&shape.requests, &kind.allocatable) >= load);
        holding.map(|kind| kind.offerings[0].price.0).min()
    };
    let host_cost = |hosts: i64| {
        let (more, fewer) = (pods % hosts, hosts - pods % hosts);
        let least = if fewer == 0 { 0 } else { cheapest(pods / hosts)? * fewer };
        let most = if more == 0 { 0 } else { cheapest(pods / hosts + 1)? * more };
        Some(least + most)
    };
    numbers.by_ref().filter_map(host_cost).min().unwrap()
}

/// Asserts that the plan is valid and complete and costs at most a tenth more than even hosts do.
fn assert_even(cpu: i64, mebibytes: i64, pods: usize, max_skew: u32, hard: bool) {
    assert_few_hosts(shape("web", cpu, mebibytes, vec![spread("web", max_skew, hard)]), pods, max_skew);
}

fn assert_few_hosts(web: PodShape, pods: usize, max_skew: u32) {
    let mut snapshot = cluster();
    let even = even_cost(&snapshot, &web, i64::try_from(pods).unwrap());
    add_pods(&mut snapshot, web, pods);
    let decided = plan(&snapshot);
    assert_eq!(findings(&snapshot, &decided), Vec::<String>::new());
    assert_eq!(pending(&decided), 0);
    assert!(cost(&decided) * 10 <= even * 11, "{} for {even}: {:#?}", cost(&decided), decided.launches);
    let counts: Vec<usize> = decided.launches.iter().map(|launch| launch.pods.len()).collect();
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(counts.len() >= 2 && most - least <= max_skew as usize, "{counts:?}");
    let again = plan(&applied::to(&snapshot, &decided));
    assert!(again.launches.is_empty() && pending(&again) == 0, "{again:#?}");
}

#[test]
fn hard_spread_over_hosts_uses_few_even_hosts() {
    assert_even(1000, 2048, 20, 1, true);
    assert_even(250, 512, 20, 1, true);
    assert_even(500, 1024, 50, 1, true);
    assert_even(1000, 2048, 50, 2, true);
}

#[test]
fn soft_spread_over_hosts_uses_few_even_hosts() {
    assert_even(1000, 2048, 20, 1, false);
    assert_even(250, 512, 20, 1, false);
    assert_even(500, 1024, 50, 1, false);
}

fn over_zones(max_skew: u32) -> Spread {
    Spread { key: label::ZONE.to_owned(), ..spread("web", max_skew, true) }
}

#[test]
fn spread_over_zones_and_hosts_uses_few_even_hosts() {
    for (pods, host_skew, zone_skew) in [(50, 2, 5), (20, 1, 1), (30, 1, 1)] {
        let mut snapshot = cluster_in(&["a", "b", "c"]);
        let web = shape("web", 1000, 2048, vec![spread("web", host_skew, true), over_zones(zone_skew)]);
        let even = cost_of_hosts(&snapshot, &web, pods, (1..pods / 3).map(|hosts| hosts * 3));
        add_pods(&mut snapshot, web, usize::try_from(pods).unwrap());
        let decided = plan(&snapshot);
        assert_eq!(findings(&snapshot, &decided), Vec::<String>::new());
        assert_eq!(pending(&decided), 0);
        assert!(cost(&decided) <= even, "{} for {even}: {:#?}", cost(&decided), decided.launches);
        let again = plan(&applied::to(&snapshot, &decided));
        assert!(again.launches.is_empty() && pending(&again) == 0, "{again:#?}");
    }
}

fn separate(cpu: i64, mebibytes: i64) -> PodShape {
    let selector = Some(Selector(vec![Requirement::new("app", Operator::In, ["web"])]));
    let term = PodTerm { key: label::HOSTNAME.to_owned(), selector, ..PodTerm::default() };
    PodShape { prefers_apart: vec![PodPreference { weight: 100, term }], ..shape("web", cpu, mebibytes, Vec::new()) }
}

#[test]
fn soft_anti_affinity_shares_hosts_beyond_the_premium() {
    assert_few_hosts(separate(1000, 2048), 20, 10);
    assert_few_hosts(separate(250, 512), 20, 10);
    assert_few_hosts(separate(500, 1024), 50, 25);
}

#[test]
fn preference_premium_decides_between_separate_and_shared_hosts() {
    let mut snapshot = cluster();
    add_pods(&mut snapshot, separate(700, 1000), 4);
    let mut hosts = |premium: Option<u32>| {
        snapshot.policy.preference_premium = premium.into();
        let decided = plan(&snapshot);
        assert_eq!(findings(&snapshot, &decided), Vec::<String>::new());
        (decided.launches.len(), cost(&decided))
    };
    let (unlimited, shared) = (hosts(None), hosts(Some(0)));
    assert_eq!((unlimited.0, shared.0), (4, 2), "{unlimited:?}, {shared:?}");
    let premium = u32::try_from((unlimited.1 - shared.1) * 100 / shared.1).unwrap();
    assert_eq!((hosts(Some(premium + 1)), hosts(Some(premium - 1))), (unlimited, shared));
}

#[test]
fn soft_anti_affinity_keeps_two_hosts_for_two_pods() {
    let mut snapshot = cluster();
    snapshot.policy.preference_premium = PreferencePremium::Percent(0);
    add_pods(&mut snapshot, separate(100, 128), 2);
    let decided = plan(&snapshot);
    assert_eq!(decided.launches.len(), 2, "{:#?}", decided.launches);
}

#[test]
fn spread_over_hosts_counts_hosts_that_other_pods_need() {
    let mut snapshot = cluster();
    add_pods(&mut snapshot, shape("web", 500, 1024, vec![spread("web", 1, true)]), 30);
    add_pods(&mut snapshot, shape("batch", 1000, 2048, Vec::new()), 100);
    let decided = plan(&snapshot);
    assert_eq!(findings(&snapshot, &decided), Vec::<String>::new());
    assert_eq!(pending(&decided), 0);
    let total = 30 * 500 + 100 * 1000;
    assert!(cost(&decided) * 1000 <= total * 42_500 * 12 / 10, "{} for {total} cores", cost(&decided));
}

#[test]
fn full_node_without_pods_pins_spread_over_hosts() {
    let mut snapshot = cluster();
    let web = shape("web", 1000, 2048, vec![spread("web", 1, true)]);
    add_node(&mut snapshot, &Arc::new(web.clone()), 0, 0);
    add_pods(&mut snapshot, web, 6);
    let decided = plan(&snapshot);
    assert_eq!(findings(&snapshot, &decided), Vec::<String>::new());
    assert_eq!((decided.launches.len(), pending(&decided)), (6, 0));
}

#[test]
fn node_outside_own_affinity_does_not_pin_spread_over_hosts() {
    let mut snapshot = cluster();
    let mut web = shape("web", 1000, 2048, vec![spread("web", 1, true)]);
    web.selector = vec![Requirement::new(label::ZONE, Operator::In, ["a"])];
    add_node(&mut snapshot, &Arc::new(web.clone()), 0, 0);
    let even = even_cost(&snapshot, &web, 6);
    add_pods(&mut snapshot, web, 6);
    let decided = plan(&snapshot);
    assert_eq!(findings(&snapshot, &decided), Vec::<String>::new());
    assert!(cost(&decided) * 10 <= even * 11, "{} for {even}: {:#?}", cost(&decided), decided.launches);
}

#[test]
fn min_domains_sets_least_number_of_hosts() {
    let mut snapshot = cluster();
    let spread = Spread { min_domains: Some(5), ..spread("web", 1, true) };
    add_pods(&mut snapshot, shape("web", 250, 512, vec![spread]), 20);
    let decided = plan(&snapshot);
    assert_eq!(findings(&snapshot, &decided), Vec::<String>::new());
    assert_eq!((decided.launches.len(), pending(&decided)), (5, 0));
}

#[test]
fn check_rejects_uneven_hosts() {
    let mut snapshot = cluster();
    add_pods(&mut snapshot, shape("web", 1000, 2048, vec![spread("web", 1, true)]), 6);
    let mut decided = plan(&snapshot);
    assert_eq!(findings(&snapshot, &decided), Vec::<String>::new());
    // One host gives all its pods but one to another host.
    let moved: Vec<usize> = decided.launches[0].pods.drain(1..).collect();
    decided.launches[1].pods.extend(&moved);
    for pod in moved {
        let PodVerdict::Launch { launch, .. } = &mut decided.report.pods[pod] else { unreachable!("{decided:?}") };
        *launch = 1;
    }
    let found = findings(&snapshot, &decided);
    assert!(found.iter().any(|it| it.contains("is spread badly")), "{found:?}");
}

/// Node of the model: how many pods of the shape it holds, and how many it has.
#[derive(Clone, Debug)]
struct Host {
    capacity: i64,
    pods: i64,
}

/// Binds as many pods as kube-scheduler's rule allows, each to any allowed host; returns the number of pods that remain.
fn bind(hosts: &mut [Host], mut pods: i64, max_skew: i64, choices: &mut impl Iterator<Item = usize>) -> i64 {
    while pods > 0 {
        let least = hosts.iter().map(|host| host.pods).min().unwrap_or(0);
        let allows = |host: &Host| host.pods < host.capacity && host.pods + 1 - least <= max_skew;
        let allowed: Vec<usize> = (0..hosts.len()).filter(|host| allows(&hosts[*host])).collect();
        if allowed.is_empty() {
            break;
        }
        hosts[allowed[choices.next().unwrap_or(0) % allowed.len()]].pods += 1;
        pods -= 1;
    }
    pods
}

fn present_hosts(snapshot: &Snapshot, shape: &PodShape) -> Vec<Host> {
    let free = |node: &Node| times(&shape.requests, &node.allocatable);
    snapshot
        .nodes
        .iter()
        .map(|node| Host { capacity: free(node), pods: i64::try_from(node.pods.len()).unwrap() })
        .collect()
}

fn launched_hosts(snapshot: &Snapshot, plan: &Plan, shape: &PodShape) -> Vec<Host> {
    let types = &snapshot.catalogues[0].types;
    let host = |name: &String| {
        let kind = types.iter().find(|kind| kind.name == *name).unwrap();
        Host { capacity: times(&shape.requests, &kind.allocatable), pods: 0 }
    };
    plan.launches.iter().map(|launch| host(&launch.instance_types[0])).collect()
}

/// Random deployment: requests, pods, maximum skew, `minDomains`, hard, and existing nodes with bound pods and free places.
type Deployment = ((i64, i64), usize, u32, Option<u32>, bool, Vec<(usize, i64)>);

fn deployment() -> impl Strategy<Value = Deployment> {
    let requests = sample::select(vec![(250, 512), (500, 1024), (1000, 2048), (1500, 8000), (3900, 4096)]);
    let nodes = collection::vec((0usize..6, 0i64..5), 0..4);
    let min_domains = prop::option::weighted(0.2, 2u32..5);
    (requests, 1usize..40, 1u32..4, min_domains, prop::bool::weighted(0.7), nodes)
}

fn deployed(deployment: &Deployment) -> (Snapshot, PodShape) {
    let ((cpu, mebibytes), pods, max_skew, min_domains, hard, nodes) = deployment.clone();
    let mut snapshot = cluster();
    let min_domains = min_domains.filter(|_| hard);
    let web = shape("web", cpu, mebibytes, vec![Spread { min_domains, ..spread("web", max_skew, hard) }]);
    for (bound, free) in nodes {
        add_node(&mut snapshot, &Arc::new(web.clone()), bound, free);
    }
    add_pods(&mut snapshot, web.clone(), pods);
    (snapshot, web)
}

/// Asserts that the plan places all pods validly, and that the next plan launches nothing.
fn assert_valid_and_stable(snapshot: &Snapshot) {
    let decided = plan(snapshot);
    assert_eq!(findings(snapshot, &decided), Vec::<String>::new());
    assert_eq!(pending(&decided), 0);
    let after = applied::to(snapshot, &decided);
    let again = plan(&after);
    assert_eq!(findings(&after, &again), Vec::<String>::new());
    assert!(again.launches.is_empty() && pending(&again) == 0, "{again:#?}\nafter {decided:#?}");
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn plan_with_even_hosts_is_valid_and_stable(deployment in deployment()) {
        let (snapshot, _) = deployed(&deployment);
        assert_valid_and_stable(&snapshot);
    }

    #[test]
    fn plan_of_several_spread_deployments_is_valid_and_stable(
        deployments in collection::vec(deployment(), 2..4),
        plain in 0usize..30,
        prefers in 0usize..8,
    ) {
        let mut snapshot = cluster();
        for (number, deployment) in deployments.iter().enumerate() {
            let ((cpu, mebibytes), pods, max_skew, min_domains, hard, nodes) = deployment.clone();
            let app = format!("app-{number}");
            let min_domains = min_domains.filter(|_| hard);
            let own = shape(&app, cpu, mebibytes, vec![Spread { min_domains, ..spread(&app, max_skew, hard) }]);
            nodes.into_iter().for_each(|(bound, free)| add_node(&mut snapshot, &Arc::new(own.clone()), bound, free));
            add_pods(&mut snapshot, own, pods);
        }
        add_pods(&mut snapshot, shape("batch", 1000, 2048, Vec::new()), plain);
        add_pods(&mut snapshot, separate(500, 1024), prefers);
        assert_valid_and_stable(&snapshot);
    }

    #[test]
    fn even_hosts_bind_all_pods_in_any_order(deployment in deployment(), choices in collection::vec(any::<usize>(), 64), order in any::<u64>()) {
        // Preferences never keep a pod from its node, and `minDomains` may exceed the hosts of a part of the nodes.
        let deployment: Deployment = (deployment.0, deployment.1, deployment.2, None, true, deployment.5);
        let (snapshot, web) = deployed(&deployment);
        let decided = plan(&snapshot);
        let (pods, max_skew) = (i64::try_from(deployment.1).unwrap(), i64::from(deployment.2));
        let mut choices = choices.into_iter().cycle();
        let mut hosts = present_hosts(&snapshot, &web);
        let mut coming = launched_hosts(&snapshot, &decided, &web);
        let mut left = bind(&mut hosts, pods, max_skew, &mut choices);
        let mut random = order;
        while !coming.is_empty() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let next = usize::try_from(random >> 33).unwrap() % coming.len();
            hosts.push(coming.swap_remove(next));
            left = bind(&mut hosts, left, max_skew, &mut choices);
        }
        prop_assert_eq!(left, 0, "{:?} after {:#?}", hosts, decided.launches);
    }

    #[test]
    fn plan_replaces_an_even_host_that_never_starts(deployment in deployment(), choices in collection::vec(any::<usize>(), 64), missing in any::<usize>()) {
        let deployment: Deployment = (deployment.0, deployment.1, deployment.2, None, deployment.4, deployment.5);
        let (snapshot, web) = deployed(&deployment);
        let decided = plan(&snapshot);
        prop_assume!(!decided.launches.is_empty());
        let mut hosts = present_hosts(&snapshot, &web);
        let mut coming = launched_hosts(&snapshot, &decided, &web);
        coming.swap_remove(missing % coming.len());
        hosts.extend(coming);
        let max_skew = if deployment.4 { i64::from(deployment.2) } else { i64::MAX / 4 };
        let left = bind(&mut hosts, i64::try_from(deployment.1).unwrap(), max_skew, &mut choices.into_iter().cycle());
        let mut after = cluster();
        for host in &hosts {
            add_node(&mut after, &Arc::new(web.clone()), usize::try_from(host.pods).unwrap(), host.capacity - host.pods);
        }
        add_pods(&mut after, web, usize::try_from(left).unwrap());
        let again = plan(&after);
        prop_assert_eq!(findings(&after, &again), Vec::<String>::new());
        prop_assert_eq!(pending(&again), 0);
    }
}
