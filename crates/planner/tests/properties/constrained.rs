//! Random clusters with every kind of constraint: inter-pod constraints, ports, volumes, reservations, static NodePools,
//! CapacityBuffers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use planner::{
    BoundPod, CapacityType, HostPort, MicroDollars, MinValuesPolicy, Node, NodePreference, Offering, Operator,
    PodPreference, PodShape, PodTerm, PreferencePolicy, Requirement, Reservation, Selector, Snapshot, Spread, Stage,
    VolumeNeed, label,
};
use proptest::prelude::{Just, Strategy, any};
use proptest::{collection, option, sample};

use crate::clusters::{self, Cluster};

const DRIVER: &str = "disk";
const ARCH: &str = "kubernetes.io/arch";
/// Label that few NodePools give their nodes; usually none does.
const RACK: &str = "rack";

fn rarely<T: Strategy>(what: T) -> impl Strategy<Value = Option<T::Value>>
where
    T::Value: Clone,
{
    option::weighted(0.25, what)
}

fn key() -> impl Strategy<Value = String> {
    let keys = vec![label::ZONE, label::ZONE, label::ZONE, label::HOSTNAME, label::HOSTNAME, label::HOSTNAME];
    let rare = [label::CAPACITY_TYPE, ARCH, RACK];
    sample::select(keys.into_iter().chain(rare).collect::<Vec<_>>()).prop_map(str::to_owned)
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

/// Returns the inter-pod constraints, preferences, ports and volumes of a shape.
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

/// Random part of an instance type.
type Kind = (Option<i64>, Option<u32>, Option<(usize, u32)>);

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let kind = (rarely(0i64..3), rarely(sample::select(vec![800u32, 1250])), rarely((0usize..2, 0u32..3)));
    collection::vec(kind, 6)
}

/// Pod that is bound to a node: its node, its shape, whether it terminates.
type Bound = (usize, usize, bool);

/// Random part of a NodePool: replicas, fee, rack.
type Extras = (Option<u32>, i64, Option<&'static str>);

/// Settings: random parts of NodePools, and policies.
type Settings = (Vec<Extras>, bool, bool, usize);

fn settings() -> impl Strategy<Value = Settings> {
    let rack = option::weighted(0.1, sample::select(vec!["r1", "r2"]));
    let extras = (option::weighted(0.12, 0u32..3), 0i64..3, rack);
    (collection::vec(extras, 3), any::<bool>(), any::<bool>(), 0usize..4)
}

/// Returns clusters with all of these constraints.
pub fn constrained() -> impl Strategy<Value = Cluster> {
    let bound = collection::vec((any::<usize>(), any::<usize>(), proptest::bool::weighted(0.2)), 0..6);
    let buffers = rarely(0usize..3);
    let claims = collection::vec(0usize..6, 12);
    let companies = collection::vec(company(), 5);
    let rest = (rarely(port()), any::<bool>());
    (clusters::cluster(), companies, kinds(), bound, buffers, claims, settings(), rest).prop_map(
        |(Cluster(mut snapshot), companies, kinds, bound, buffers, claims, settings, (port, open))| {
            for (shape, company) in snapshot.shapes.iter_mut().zip(companies) {
                *shape = Arc::new(joined(shape, company));
            }
            let shapes = snapshot.shapes.clone();
            for (pod, first) in snapshot.pods.iter_mut().zip(claims) {
                pod.claims = (first..).zip(&shapes[pod.shape].volumes).map(|(it, volume)| claim(it, volume)).collect();
            }
            equip(&mut snapshot, &kinds);
            settle(&mut snapshot, settings);
            if open {
                leave_open(&mut snapshot);
            }
            bound.into_iter().for_each(|it| bind(&mut snapshot, it));
            reserve_capacity(&mut snapshot, buffers.unwrap_or(0));
            if let Some(daemon) = snapshot.daemons.first_mut() {
                daemon.shape.ports = port.into_iter().collect();
            }
            let labels = |team: &str| BTreeMap::from([("team".to_owned(), team.to_owned())]);
            snapshot.namespaces = [("n".to_owned(), labels("one")), ("m".to_owned(), labels("two"))].into();
            Cluster(snapshot)
        },
    )
}

/// Removes all reserved offerings.
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
                premium: MicroDollars(0),
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

fn settle(snapshot: &mut Snapshot, (extras, ignore, best_effort, least): Settings) {
    for (pool, (replicas, fee, rack)) in snapshot.pools.iter_mut().zip(extras) {
        (pool.replicas, pool.node_fee) = (replicas, MicroDollars(fee));
        pool.labels.extend(rack.map(|rack| (RACK.to_owned(), rack.to_owned())));
        let own = |node: &&mut Arc<Node>| node.pool.as_ref() == Some(&pool.name);
        for node in snapshot.nodes.iter_mut().filter(own) {
            Arc::make_mut(node).labels.extend(rack.map(|rack| (RACK.to_owned(), rack.to_owned())));
            pool.running += u32::from(node.leaving.is_none());
        }
    }
    let policy = &mut snapshot.policy;
    policy.preferences = if ignore { PreferencePolicy::Ignore } else { PreferencePolicy::Respect };
    policy.min_values = if best_effort { MinValuesPolicy::BestEffort } else { MinValuesPolicy::Strict };
    policy.least_spot_types = least;
}

/// Leaves open the offering of in-flight claims, among all offerings of their type.
fn leave_open(snapshot: &mut Snapshot) {
    let kinds = Arc::clone(&snapshot.catalogues[0]);
    for node in snapshot.nodes.iter_mut().filter(|it| it.stage == Stage::InFlight && it.pool.is_some()) {
        let Some(kind) = kinds.types.iter().find(|kind| Some(&kind.name) == node.instance_type.as_ref()) else {
            return;
        };
        let node = Arc::make_mut(node);
        for key in [label::ZONE, label::CAPACITY_TYPE] {
            let sold = kind.offerings.iter().filter(|it| it.reservation.is_none());
            let values: BTreeSet<&str> = sold.filter_map(|offering| offering.value(key)).collect();
            if values.len() > 1 {
                node.labels.remove(key);
            }
            node.requirements.push(Requirement::new(key, Operator::In, values));
        }
        let settled = node.labels.iter().map(|(key, value)| Requirement::new(key, Operator::In, [value]));
        node.requirements.extend(settled.filter(|it| ![label::ZONE, label::CAPACITY_TYPE].contains(&it.key.as_str())));
    }
}

/// Returns the name of a claim: pods with the same claim use the same volume.
fn claim(position: usize, volume: &VolumeNeed) -> String {
    let zones: Vec<&String> = volume.alternatives.iter().flatten().flat_map(|zone| &zone.values).collect();
    format!("n/claim-{position}-{zones:?}-{}", volume.driver.as_deref().unwrap_or_default())
}

/// Adds a bound pod; on a leaving node it needs a new place, unless it terminates.
fn bind(snapshot: &mut Snapshot, (node, shape, ending): Bound) {
    if snapshot.nodes.is_empty() {
        return;
    }
    let (position, index) = (node % snapshot.nodes.len(), shape % snapshot.shapes.len());
    let node = Arc::make_mut(&mut snapshot.nodes[position]);
    if node.stage == Stage::InFlight {
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

/// Adds CapacityBuffer pods, like those of the first shape but without volumes.
fn reserve_capacity(snapshot: &mut Snapshot, count: usize) {
    let like = PodShape { volumes: Vec::new(), priority: i32::MIN, ..PodShape::clone(&snapshot.shapes[0]) };
    snapshot.shapes.push(Arc::new(like));
    for position in 0..count {
        let name = format!("n/buffer-{position}");
        let holder = Some(planner::CapacityHolder::Buffer("n/spare".to_owned()));
        let shape = snapshot.shapes.len() - 1;
        snapshot.pods.push(planner::Pod { uid: name.clone(), name, shape, holder, ..Default::default() });
    }
}
