//! Random clusters with every kind of constraint: pods among pods, ports, volumes, reservations, static pools, buffers.

use std::collections::BTreeMap;
use std::sync::Arc;

use planner::{
    BoundPod, CapacityType, HostPort, MicroDollars, MinValuesPolicy, Node, NodePreference, Offering, Operator,
    PodPreference, PodShape, PodTerm, PreferencePolicy, Requirement, Reservation, Selector, Snapshot, Spread,
    VolumeNeed, label,
};
use proptest::prelude::{Just, Strategy, any};
use proptest::{collection, option, sample};

use crate::clusters::{self, Cluster};

const DRIVER: &str = "disk";
const ARCH: &str = "kubernetes.io/arch";

fn rarely<T: Strategy>(what: T) -> impl Strategy<Value = Option<T::Value>>
where
    T::Value: Clone,
{
    option::weighted(0.25, what)
}

fn key() -> impl Strategy<Value = String> {
    let keys = vec![label::ZONE, label::ZONE, label::HOSTNAME, label::HOSTNAME, label::CAPACITY_TYPE, ARCH];
    sample::select(keys).prop_map(str::to_owned)
}

fn app(name: &str) -> Selector {
    Selector(vec![Requirement::new("app", Operator::In, [name])])
}

fn selector() -> impl Strategy<Value = Option<Selector>> {
    sample::select(vec![Some("x"), Some("x"), Some("y"), Some(""), None])
        .prop_map(|name| name.map(|name| if name.is_empty() { Selector::default() } else { app(name) }))
}

fn term() -> impl Strategy<Value = PodTerm> {
    let namespaces = sample::select(vec![vec![], vec![], vec!["n".to_owned()], vec!["m".to_owned()]]);
    let of_teams = Selector(vec![Requirement::new("team", Operator::Exists, [""; 0])]);
    let by_label = sample::select(vec![None, None, None, Some(of_teams)]);
    (key(), selector(), namespaces, by_label).prop_map(|(key, selector, namespaces, namespace_selector)| PodTerm {
        key,
        selector,
        namespaces,
        namespace_selector,
    })
}

fn spread() -> impl Strategy<Value = Spread> {
    let min_domains = option::weighted(0.2, 2u32..4);
    (key(), 1u32..4, min_domains, selector(), proptest::bool::weighted(0.7), any::<bool>(), any::<bool>()).prop_map(
        |(key, max_skew, min_domains, selector, hard, honor_affinity, honor_taints)| Spread {
            key,
            max_skew,
            min_domains,
            selector,
            hard,
            honor_affinity,
            honor_taints,
        },
    )
}

fn port() -> impl Strategy<Value = HostPort> {
    let ip = sample::select(vec!["0.0.0.0", "10.0.0.1", "10.0.0.2"]);
    let protocol = sample::select(vec!["TCP", "UDP"]);
    (ip, 80u16..82, protocol).prop_map(|(ip, port, protocol)| HostPort {
        ip: ip.into(),
        port,
        protocol: protocol.into(),
    })
}

fn volume() -> impl Strategy<Value = VolumeNeed> {
    let zones = |zones: Vec<&'static str>| vec![Requirement::new(label::ZONE, Operator::In, zones)];
    let alternatives = sample::select(vec![
        vec![],
        vec![zones(vec!["a"])],
        vec![zones(vec!["b"])],
        vec![zones(vec!["a"]), zones(vec!["b", "c"])],
    ]);
    let driver = option::weighted(0.8, Just(DRIVER.to_owned()));
    (driver, alternatives).prop_map(|(driver, alternatives)| VolumeNeed { driver, alternatives })
}

fn preference() -> impl Strategy<Value = PodPreference> {
    (1i32..4, term()).prop_map(|(weight, term)| PodPreference { weight, term })
}

fn liking() -> impl Strategy<Value = NodePreference> {
    let term = sample::select(vec![
        Requirement::new(label::ZONE, Operator::In, ["a"]),
        Requirement::new(label::ZONE, Operator::In, ["nowhere"]),
        Requirement::new(ARCH, Operator::In, ["arm64"]),
        Requirement::new(label::CAPACITY_TYPE, Operator::In, ["on-demand"]),
    ]);
    (1i32..100, term).prop_map(|(weight, term)| NodePreference { weight, term: vec![term] })
}

/// What a shape gets beside its requests and what it asks of the node.
pub fn company() -> impl Strategy<Value = PodShape> {
    let name = sample::select(vec!["x", "x", "y", ""]);
    let namespace = sample::select(vec!["n", "n", "n", "m"]);
    let among = (rarely(spread()), rarely(spread()), rarely(term()), rarely(term()), rarely(term()));
    let likes = (rarely(liking()), rarely(liking()), rarely(preference()), rarely(preference()));
    let needs = (rarely(port()), rarely(volume()), rarely(volume()), 0i32..2);
    (name, namespace, among, likes, needs).prop_map(
        |(name, namespace, (spread, other, near, nearer, apart), likes, (port, volume, more, priority))| PodShape {
            namespace: namespace.to_owned(),
            labels: [("app".to_owned(), name.to_owned())].into_iter().filter(|it| !it.1.is_empty()).collect(),
            spread: spread.into_iter().chain(other).collect(),
            near: near.clone().into_iter().chain(nearer.filter(|_| near.is_some())).collect(),
            apart: apart.into_iter().collect(),
            preferred: likes.0.into_iter().chain(likes.1).collect(),
            prefers_near: likes.2.into_iter().collect(),
            prefers_apart: likes.3.into_iter().collect(),
            ports: port.into_iter().collect(),
            volumes: volume.into_iter().chain(more).collect(),
            priority,
            ..PodShape::default()
        },
    )
}

fn joined(own: &PodShape, company: PodShape) -> PodShape {
    let PodShape { requests, selector, affinity, tolerations, .. } = own.clone();
    PodShape { requests, selector, affinity, tolerations, ..company }
}

/// What varies about an instance type.
type Kind = (Option<i64>, Option<u32>, Option<(usize, u32)>);

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let kind = (rarely(0i64..3), rarely(sample::select(vec![800u32, 1250])), rarely((0usize..2, 0u32..3)));
    collection::vec(kind, 6)
}

/// A pod that is bound to a node: its node, its shape, whether it ends.
type Bound = (usize, usize, bool);

/// Settings: pools' replicas and fees, the policies.
type Settings = (Vec<Option<u32>>, Vec<i64>, bool, bool, usize);

fn settings() -> impl Strategy<Value = Settings> {
    let replicas = collection::vec(option::weighted(0.12, 0u32..3), 3);
    (replicas, collection::vec(0i64..3, 3), any::<bool>(), any::<bool>(), 0usize..4)
}

/// Clusters with all of it.
pub fn crowd() -> impl Strategy<Value = Cluster> {
    let bound = collection::vec((any::<usize>(), any::<usize>(), proptest::bool::weighted(0.2)), 0..6);
    let buffers = rarely(0usize..3);
    let claims = collection::vec(0usize..6, 12);
    let companies = collection::vec(company(), 5);
    (clusters::cluster(), companies, kinds(), bound, buffers, claims, settings(), rarely(port())).prop_map(
        |(Cluster(mut snapshot), companies, kinds, bound, buffers, claims, settings, port)| {
            for (shape, company) in snapshot.shapes.iter_mut().zip(companies) {
                *shape = Arc::new(joined(shape, company));
            }
            let shared = |position: usize| format!("n/claim-{position}");
            let shapes = snapshot.shapes.clone();
            for (pod, claim) in snapshot.pods.iter_mut().zip(claims) {
                pod.claims = (0..shapes[pod.shape].volumes.len()).map(|it| shared(claim + it)).collect();
            }
            equip(&mut snapshot, &kinds);
            settle(&mut snapshot, settings);
            bound.into_iter().for_each(|it| bind(&mut snapshot, it));
            keep_room(&mut snapshot, buffers.unwrap_or(0));
            if let Some(daemon) = snapshot.daemons.first_mut() {
                daemon.shape.ports = port.into_iter().collect();
            }
            let labels = |team: &str| BTreeMap::from([("team".to_owned(), team.to_owned())]);
            snapshot.namespaces = [("n".to_owned(), labels("one")), ("m".to_owned(), labels("two"))].into();
            Cluster(snapshot)
        },
    )
}

/// The same without what the solver does not keep in every case yet: enough types for spot when seats are given away
/// later, the taint that a cordon is to pods spread by `nodeTaintsPolicy: Honor`, zones of a static pool's new node that
/// are sold out now, and anti-affinity over what a type decides where only a reservation is left.
pub fn calm() -> impl Strategy<Value = Cluster> {
    crowd().prop_map(|Cluster(mut snapshot)| {
        snapshot.policy.least_spot_types = 0;
        snapshot.nodes.iter_mut().for_each(|node| Arc::make_mut(node).unschedulable = false);
        snapshot.pools.iter_mut().for_each(|pool| pool.replicas = None);
        unreserved(&mut snapshot);
        Cluster(snapshot)
    })
}

/// Nothing can be had from reservations.
pub fn unreserved(snapshot: &mut Snapshot) {
    let types = &mut Arc::make_mut(&mut snapshot.catalogues[0]).types;
    types.iter_mut().for_each(|kind| kind.offerings.retain(|it| it.reservation.is_none()));
}

fn equip(snapshot: &mut Snapshot, kinds: &[Kind]) {
    let catalogue = Arc::make_mut(&mut snapshot.catalogues[0]);
    let reserved = |position| kinds.iter().filter_map(|kind| kind.2).find(|it| it.0 == position);
    for (kind, (attach, performance, taken)) in catalogue.types.iter_mut().zip(kinds) {
        kind.performance = *performance;
        kind.attach_limits = attach.iter().map(|limit| (DRIVER.to_owned(), *limit)).collect();
        kind.offerings.extend(taken.and_then(|(position, _)| reserved(position)).map(|(position, remaining)| {
            Offering {
                zone: ["a", "b"][position].to_owned(),
                capacity_type: CapacityType::Reserved,
                price: MicroDollars(1),
                available: remaining > 0,
                labels: BTreeMap::new(),
                reservation: Some(Reservation { id: format!("r-{position}"), remaining }),
            }
        }));
    }
    for node in &mut snapshot.nodes {
        let kind = catalogue.types.iter().find(|kind| Some(&kind.name) == node.instance_type.as_ref());
        Arc::make_mut(node).attach_limits = kind.map(|kind| kind.attach_limits.clone()).unwrap_or_default();
    }
}

fn settle(snapshot: &mut Snapshot, (replicas, fees, ignore, best_effort, least): Settings) {
    for ((pool, replicas), fee) in snapshot.pools.iter_mut().zip(replicas).zip(fees) {
        (pool.replicas, pool.node_fee) = (replicas, MicroDollars(fee));
        let own = |node: &&Arc<Node>| node.pool.as_ref() == Some(&pool.name) && node.leaving.is_none();
        pool.running = u32::try_from(snapshot.nodes.iter().filter(own).count()).unwrap();
    }
    let policy = &mut snapshot.policy;
    policy.preferences = if ignore { PreferencePolicy::Ignore } else { PreferencePolicy::Respect };
    policy.min_values = if best_effort { MinValuesPolicy::BestEffort } else { MinValuesPolicy::Strict };
    policy.least_spot_types = least;
}

/// A pod that is there already; on a leaving node it looks for a new place, unless it ends.
fn bind(snapshot: &mut Snapshot, (node, shape, ending): Bound) {
    if snapshot.nodes.is_empty() {
        return;
    }
    let (position, index) = (node % snapshot.nodes.len(), shape % snapshot.shapes.len());
    let node = Arc::make_mut(&mut snapshot.nodes[position]);
    if node.stage == planner::Stage::InFlight {
        return;
    }
    let shape = Arc::clone(&snapshot.shapes[index]);
    let name = format!("n/bound-{position}-{}", node.pods.len());
    let claims: Vec<String> = (0..shape.volumes.len()).map(|it| format!("{name}-{it}")).collect();
    node.used.add(&shape.requests);
    let pod = BoundPod {
        uid: name.clone(),
        name: name.clone(),
        reschedulable: !ending,
        shape,
        claims,
        ending,
        ..BoundPod::default()
    };
    node.pods.push(pod.clone());
    if node.leaving.is_some() && !ending {
        let leaving_node = Some(node.name.clone());
        let pod = planner::Pod {
            uid: name.clone(),
            name,
            shape: index,
            leaving_node,
            claims: pod.claims,
            ..Default::default()
        };
        snapshot.pods.push(pod);
    }
}

/// Pods that stand for a buffer, like those of the first shape but for volumes.
fn keep_room(snapshot: &mut Snapshot, count: usize) {
    let like = PodShape { volumes: Vec::new(), priority: i32::MIN, ..PodShape::clone(&snapshot.shapes[0]) };
    snapshot.shapes.push(Arc::new(like));
    for position in 0..count {
        let name = format!("n/buffer-{position}");
        let buffer = Some("n/spare".to_owned());
        let shape = snapshot.shapes.len() - 1;
        snapshot.pods.push(planner::Pod { uid: name.clone(), name, shape, buffer, ..Default::default() });
    }
}
