//! Every place for one more pod, tried one by one, with the checker as the judge.

use std::sync::Arc;

use planner::{
    Launch, Nomination, Offering, Operator, PlacementReason, Plan, PodShape, PodVerdict, Pool, Purpose, Requirement,
    Resources, Snapshot, check, label,
};

/// A place that the plan overlooked, as it is, for a pod that it left pending.
pub fn place(snapshot: &Snapshot, decided: &Plan, pod: usize) -> Option<String> {
    let decided = &unmoved(decided);
    let fits =
        |plan: &Plan| check(snapshot, plan).is_empty() && !leans(snapshot, plan, pod) && !torn(snapshot, plan, pod);
    let on_node = snapshot.nodes.iter().find(|node| fits(&nominated(decided, pod, &node.name)));
    if let Some(node) = on_node {
        return Some(format!("on {}", node.name));
    }
    let beside = joined(snapshot, decided, pod).into_iter().chain(fresh(snapshot, decided, pod)).find(fits)?;
    let launch = beside.launches.iter().position(|it| it.pods.contains(&pod))?;
    Some(format!("on launch {launch}: {:#?}", beside.launches[launch]))
}

/// The plan without its moves: they come after pods have their places, and never take one from a pod that waits.
fn unmoved(decided: &Plan) -> Plan {
    let mut plan = decided.clone();
    plan.moves.clear();
    plan.launches.retain(|launch| launch.purpose != Purpose::Replacement);
    for (_, verdict) in &mut plan.report.nodes {
        if matches!(verdict, planner::NodeVerdict::Remove(_)) {
            *verdict = planner::NodeVerdict::Nominated;
        }
    }
    plan
}

fn nominated(decided: &Plan, pod: usize, node: &str) -> Plan {
    let mut plan = decided.clone();
    plan.nominations.push(Nomination { pod, node: node.to_owned() });
    plan.report.pods[pod] =
        PodVerdict::Existing { node: node.to_owned(), why: PlacementReason::Room, dropped: Vec::new() };
    plan.report.order.push(pod);
    plan
}

/// What one type from one offering in one pool is, written as a launch would be.
fn exactly(launch: &Launch, shape: &PodShape, name: &str, offering: &Offering, term: &[Requirement]) -> Launch {
    let mut requirements: Vec<Requirement> = launch.requirements.clone();
    requirements.extend(shape.selector.iter().chain(term).filter(|it| it.key != label::INSTANCE_TYPE).cloned());
    requirements.push(Requirement::new(label::ZONE, Operator::In, [offering.zone.as_str()]));
    requirements.push(Requirement::new(label::CAPACITY_TYPE, Operator::In, [offering.capacity_type.as_str()]));
    let reservation = offering.reservation.as_ref().map(|it| it.id.as_str());
    requirements.extend(reservation.map(|it| Requirement::new(label::RESERVATION_ID, Operator::In, [it])));
    requirements.retain(|it| it.key != label::HOSTNAME);
    let mut requests = launch.requests.clone();
    requests.add(&shape.requests);
    let instance_types = Arc::new(vec![name.to_owned()]);
    Launch { requirements, instance_types, requests, price: offering.price, ..launch.clone() }
}

/// All ways to make a launch definite and to add the pod to it.
fn ways(snapshot: &Snapshot, pool: &Pool, launch: &Launch, pod: usize) -> Vec<Launch> {
    let shape = &snapshot.shapes[snapshot.pods[pod].shape];
    let terms = if shape.affinity.is_empty() { vec![Vec::new()] } else { shape.affinity.clone() };
    let mut ways = Vec::new();
    for kind in &snapshot.catalogues[pool.catalogue].types {
        let listed = launch.pods.is_empty() || launch.instance_types.contains(&kind.name);
        for (term, offering) in terms.iter().flat_map(|term| kind.offerings.iter().map(move |it| (term, it))) {
            if listed && offering.available {
                let mut way = exactly(launch, shape, &kind.name, offering, term);
                way.pods.push(pod);
                ways.push(way);
            }
        }
    }
    ways
}

fn flexible(pool: &Pool) -> bool {
    pool.requirements.iter().any(|it| it.min_values.is_some())
}

fn joined(snapshot: &Snapshot, decided: &Plan, pod: usize) -> Vec<Plan> {
    let mut plans = Vec::new();
    for (position, launch) in decided.launches.iter().enumerate() {
        let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool).unwrap();
        if flexible(pool) {
            continue;
        }
        for way in ways(snapshot, pool, launch, pod) {
            let mut plan = decided.clone();
            plan.launches[position] = way;
            plan.report.pods[pod] =
                PodVerdict::Launch { launch: position, why: PlacementReason::Opened, dropped: Vec::new() };
            plan.report.order.push(pod);
            plans.push(plan);
        }
    }
    plans
}

fn fresh(snapshot: &Snapshot, decided: &Plan, pod: usize) -> Vec<Plan> {
    let mut plans = Vec::new();
    for pool in snapshot.pools.iter().filter(|pool| !flexible(pool) && pool.replicas.is_none()) {
        for way in ways(snapshot, pool, &empty(pool), pod) {
            let mut plan = decided.clone();
            plan.launches.push(way);
            plan.report.pods[pod] = PodVerdict::Launch {
                launch: plan.launches.len() - 1,
                why: PlacementReason::Opened,
                dropped: Vec::new(),
            };
            plan.report.order.push(pod);
            plans.push(plan);
        }
    }
    plans
}

fn empty(pool: &Pool) -> Launch {
    Launch {
        pool: pool.name.clone(),
        requirements: pool.requirements.clone(),
        instance_types: Arc::default(),
        requests: Resources::default(),
        min_instance_types: None,
        pods: Vec::new(),
        price: planner::MicroDollars(0),
        purpose: Purpose::Provision,
        min_values_relaxed: false,
    }
}

/// Where a pod of the plan goes: the node, or the launch.
fn there(plan: &Plan, pod: usize) -> Option<Result<&str, usize>> {
    match &plan.report.pods[pod] {
        PodVerdict::Existing { node, .. } => Some(Ok(node)),
        PodVerdict::Launch { launch, .. } => Some(Err(*launch)),
        _ => None,
    }
}

/// A label's only value where the pod goes.
fn value(snapshot: &Snapshot, plan: &Plan, pod: usize, key: &str) -> Option<String> {
    match there(plan, pod)? {
        Ok(name) if key == label::HOSTNAME => Some(name.to_owned()),
        Err(launch) if key == label::HOSTNAME => Some(format!("launch {launch}")),
        Ok(name) => snapshot.nodes.iter().find(|node| node.name == name)?.labels.get(key).cloned(),
        Err(launch) => {
            let pinned = plan.launches[launch]
                .requirements
                .iter()
                .find(|it| it.key == key && it.operator == Operator::In && it.values.len() == 1);
            let of_type = || {
                let types = snapshot.catalogues.iter().flat_map(|it| &it.types);
                let mut listed = types.filter(|kind| plan.launches[launch].instance_types.contains(&kind.name));
                let first = listed.next()?.labels.get(key)?.first()?;
                listed.all(|kind| kind.labels.get(key).is_some_and(|it| it.contains(first))).then(|| first.clone())
            };
            pinned.map(|it| it.values[0].clone()).or_else(of_type)
        }
    }
}

/// Whether a domain that nobody uses yet, in which pods may still come up, leaves no room where the pod goes: Kerf keeps
/// a spread against all domains that there could be, kube-scheduler against those that there are.
fn leans(snapshot: &Snapshot, plan: &Plan, pod: usize) -> bool {
    let shape = &snapshot.shapes[snapshot.pods[pod].shape];
    shape.spread.iter().filter(|it| it.hard).any(|spread| {
        let domain = value(snapshot, plan, pod, &spread.key);
        let counts = |other: &PodShape| {
            let selected = spread.counted().is_some_and(|it| it.selects(&other.labels));
            selected && other.namespace == shape.namespace
        };
        let planned = (0..snapshot.pods.len()).filter(|other| there(plan, *other).is_some());
        let planned = planned.filter(|other| counts(&snapshot.shapes[snapshot.pods[*other].shape]));
        let planned = planned.filter(|other| value(snapshot, plan, *other, &spread.key) == domain).count();
        let here = snapshot.nodes.iter().filter(|node| {
            let own = if spread.key == label::HOSTNAME { Some(&node.name) } else { node.labels.get(&spread.key) };
            own == domain.as_ref()
        });
        let bound = here.flat_map(|node| &node.pods).filter(|it| !it.ending && counts(&it.shape)).count();
        planned + bound > spread.max_skew as usize
    })
}

/// Whether a volume that is still to be made, in the zone of the first of its pods, would be wanted in two zones.
fn torn(snapshot: &Snapshot, plan: &Plan, pod: usize) -> bool {
    let own = &snapshot.pods[pod];
    let volumes = &snapshot.shapes[own.shape].volumes;
    let zonal = own.claims.iter().zip(volumes).filter(|(_, volume)| !volume.alternatives.is_empty());
    let claims: Vec<&String> = zonal.map(|(claim, _)| claim).collect();
    let shares = |other: &usize| snapshot.pods[*other].claims.iter().any(|claim| claims.contains(&claim));
    let others = (0..snapshot.pods.len()).filter(|other| there(plan, *other).is_some() && shares(other));
    let zone = |pod: usize| value(snapshot, plan, pod, label::ZONE);
    others.into_iter().any(|other| zone(other) != zone(pod))
}
