//! Enumeration of every place for one more pod, evaluated by the validation.

use std::sync::Arc;

use planner::{
    Launch, Nomination, Offering, Operator, PlacementReason, Plan, PodShape, PodVerdict, Pool, Purpose, Requirement,
    Resources, Snapshot, check, label,
};

/// Returns a place that the plan missed, with all nodes as they are, for a pod that it left pending.
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

/// Returns the plan without its commands: they come after the placement of pods, and never take the place of a pending pod.
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

/// Returns the launch with one type from one offering in one NodePool.
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

/// Returns all ways to fix a launch and to add the pod to it.
fn assignments(snapshot: &Snapshot, pool: &Pool, launch: &Launch, pod: usize) -> Vec<Launch> {
    let shape = &snapshot.shapes[snapshot.pods[pod].shape];
    let terms = if shape.affinity.is_empty() { vec![Vec::new()] } else { shape.affinity.clone() };
    let mut assignments = Vec::new();
    for kind in &snapshot.catalogues[pool.catalogue].types {
        let listed = launch.pods.is_empty() || launch.instance_types.contains(&kind.name);
        for (term, offering) in terms.iter().flat_map(|term| kind.offerings.iter().map(move |it| (term, it))) {
            if listed && offering.available {
                let mut assignment = exactly(launch, shape, &kind.name, offering, term);
                assignment.pods.push(pod);
                assignments.push(assignment);
            }
        }
    }
    assignments
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
        for assignment in assignments(snapshot, pool, launch, pod) {
            let mut plan = decided.clone();
            plan.launches[position] = assignment;
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
        for assignment in assignments(snapshot, pool, &empty(pool), pod) {
            let mut plan = decided.clone();
            plan.launches.push(assignment);
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
        commitment: None,
        purpose: Purpose::Provision,
        min_values_relaxed: false,
    }
}

/// Returns the place of a pod of the plan: the node, or the launch.
fn there(plan: &Plan, pod: usize) -> Option<Result<&str, usize>> {
    match &plan.report.pods[pod] {
        PodVerdict::Existing { node, .. } => Some(Ok(node)),
        PodVerdict::Launch { launch, .. } => Some(Err(*launch)),
        _ => None,
    }
}

/// Returns a label's only value at the pod's place.
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

/// Reports whether the pod's place is in this domain, or is an in-flight claim that may still start in it.
fn may_be_in(snapshot: &Snapshot, plan: &Plan, pod: usize, key: &str, domain: Option<&str>) -> bool {
    let own = value(snapshot, plan, pod, key);
    let Some(Ok(name)) = there(plan, pod).filter(|_| own.is_none()) else { return own.as_deref() == domain };
    let node = snapshot.nodes.iter().find(|node| node.name == name).unwrap();
    let open = node.requirements.iter().filter(|it| it.key == key && it.operator == Operator::In);
    domain.is_none_or(|domain| open.flat_map(|it| &it.values).any(|value| value == domain))
}

/// Reports whether a domain without pods, in which pods may still start, leaves no capacity at the pod's place. Kerf evaluates a
/// spread over all possible domains, kube-scheduler over the existing ones.
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
        let planned = planned.filter(|other| may_be_in(snapshot, plan, *other, &spread.key, domain.as_deref())).count();
        let here = snapshot.nodes.iter().filter(|node| {
            let own = if spread.key == label::HOSTNAME { Some(&node.name) } else { node.labels.get(&spread.key) };
            own == domain.as_ref()
        });
        let bound = here.flat_map(|node| &node.pods).filter(|it| !it.ending && counts(&it.shape)).count();
        planned + bound > spread.max_skew as usize
    })
}

/// Reports whether a volume that does not exist yet, created in the zone of its first pod, would be needed in two zones.
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
