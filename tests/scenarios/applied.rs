//! A cluster shortly after its plan was acted on: claims without instances, promises remembered, removed nodes leaving.

use std::sync::Arc;

use planner::{Launch, Leaving, Node, Operator, Plan, Requirement, Requirements, Resources, Snapshot, Stage, label};

/// The next snapshot, with the clock as it was. Nodes on their way out still count for the limits.
pub fn to(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut after = snapshot.clone();
    for nomination in &plan.nominations {
        after.pods[nomination.pod].nominated = Some(nomination.node.clone());
    }
    for (position, launch) in plan.launches.iter().enumerate() {
        let node = claim(snapshot, launch, &format!("claim-{position}"));
        for pod in &launch.pods {
            after.pods[*pod].nominated = Some(node.name.clone());
        }
        reserve(&mut after, launch);
        after.nodes.push(Arc::new(node));
    }
    for removal in &plan.removals {
        let node = Arc::make_mut(after.nodes.iter_mut().find(|node| node.name == removal.node).unwrap());
        node.leaving = Some(Leaving::Deleting);
        let pool = after.pools.iter_mut().find(|pool| Some(&pool.name) == node.pool.as_ref()).unwrap();
        pool.disruption.empty_budget -= 1;
    }
    after
}

fn claim(snapshot: &Snapshot, launch: &Launch, name: &str) -> Node {
    let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool).unwrap();
    let types = &snapshot.catalogues[pool.catalogue].types;
    let cheapest = types.iter().find(|kind| kind.name == launch.instance_types[0]).unwrap();
    let mut requirements = launch.requirements.clone();
    requirements.push(Requirement::new(label::INSTANCE_TYPE, Operator::In, launch.instance_types.clone()));
    let mut labels = pool.labels.clone();
    for (key, set) in requirements.iter().collect::<Requirements>().iter() {
        labels.extend(set.single().map(|value| (key.to_owned(), value.to_owned())));
    }
    Node {
        name: name.to_owned(),
        claim: Some(name.to_owned()),
        pool: Some(pool.name.clone()),
        stage: Stage::InFlight,
        labels,
        requirements,
        instance_type: Some(cheapest.name.clone()),
        taints: pool.taints.clone(),
        allocatable: cheapest.allocatable.clone(),
        price: Some(launch.price),
        ..Node::default()
    }
}

/// Counts the largest choice that the claim leaves open.
fn reserve(after: &mut Snapshot, launch: &Launch) {
    let pool = after.pools.iter_mut().find(|pool| pool.name == launch.pool).unwrap();
    let mut largest = Resources::from_iter([(Resources::NODES, 1)]);
    for kind in after.catalogues[pool.catalogue].types.iter().filter(|it| launch.instance_types.contains(&it.name)) {
        for (name, amount) in kind.capacity.iter() {
            largest.set(name, amount.max(largest.get(name)));
        }
    }
    pool.usage.add(&largest);
}
