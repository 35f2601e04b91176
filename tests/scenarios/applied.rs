//! Cluster shortly after the writes of its plan: NodeClaims without instances, nominations, and removed nodes that are leaving.

#![expect(clippy::unwrap_used, reason = "a failed assumption should fail the test")]

use std::sync::Arc;

use planner::{
    CapacityType, InstanceType, Launch, Node, Offer, Offering, Operator, Plan, ReplacementState, Requirement,
    Requirements, Reservation, Resources, Snapshot, Stage, label,
};

/// Returns the next snapshot at the same moment. Leaving nodes still count for the limits.
pub fn to(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let before = snapshot;
    let (mut after, done) = planner::carried_out(snapshot, plan);
    let (snapshot, plan) = (&after.clone(), &Plan { moves: plan.moves.clone(), ..done });
    for (pool, before) in after.pools.iter_mut().zip(&before.pools) {
        pool.usage = before.usage.clone();
    }
    for nomination in &plan.nominations {
        after.pods[nomination.pod].nominated = Some(nomination.node.clone());
    }
    for (position, launch) in plan.launches.iter().enumerate() {
        let bought = Bought::of(snapshot, launch);
        let node = bought.claim(&format!("claim-{position}"));
        for pod in &launch.pods {
            after.pods[*pod].nominated = Some(node.name.clone());
        }
        let largest = bought.largest();
        account(&mut after, launch, &largest);
        draw(&mut after, bought.reservation());
        after.nodes.push(Arc::new(node));
        share_commitments(&mut after);
    }
    for (position, pod) in plan.report.order.iter().enumerate() {
        after.pods[*pod].nominated_after = position;
    }
    spend_budgets(&mut after, plan);
    after
}

/// Subtracts the commands from the budgets, and records the replacement that a NodePool may launch at a time.
pub fn spend_budgets(after: &mut Snapshot, plan: &Plan) {
    for leaver in plan.moves.iter().flat_map(|it| &it.nodes) {
        let node = after.nodes.iter().find(|node| node.name == leaver.node).unwrap();
        let pool = after.pools.iter_mut().find(|pool| Some(&pool.name) == node.pool.as_ref()).unwrap();
        let budgets = &mut pool.disruption.budgets;
        for budget in [&mut budgets.empty, &mut budgets.underutilized, &mut budgets.drifted, &mut budgets.expired] {
            *budget = budget.saturating_sub(1);
        }
    }
    for position in plan.moves.iter().flat_map(|it| &it.replacements) {
        let launch = &plan.launches[*position];
        let pool = after.pools.iter_mut().find(|pool| pool.name == launch.pool).unwrap();
        if pool.replacements == ReplacementState::One {
            pool.replacements = ReplacementState::Awaiting { claim: format!("claim-{position}") };
        }
    }
}

/// Lets commitments pay for the present nodes.
pub fn share_commitments(after: &mut Snapshot) {
    if after.commitments.is_empty() {
        return;
    }
    for position in 0..after.nodes.len() {
        let paid = std::mem::take(&mut Arc::make_mut(&mut after.nodes[position]).paid);
        after.release(&paid);
    }
    after.pay_for_nodes();
}

/// Launch with its most likely offering.
pub struct Bought<'a> {
    snapshot: &'a Snapshot,
    launch: &'a Launch,
    pub kind: &'a InstanceType,
    pub offering: Option<&'a Offering>,
}

impl<'a> Bought<'a> {
    pub fn of(snapshot: &'a Snapshot, launch: &'a Launch) -> Self {
        let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool).unwrap();
        let types = &snapshot.catalogues[pool.catalogue].types;
        let kind = types.iter().find(|kind| kind.name == launch.instance_types[0]).unwrap();
        let requirements: Requirements = launch.requirements.iter().collect();
        let offer = Offer::new(kind);
        let offerings = offer.offerings(&requirements).filter(|it| it.available);
        Self { snapshot, launch, kind, offering: offerings.min_by_key(|it| (it.capacity_type, it.price, &it.zone)) }
    }

    fn pool(&self) -> &'a planner::Pool {
        self.snapshot.pools.iter().find(|pool| pool.name == self.launch.pool).unwrap()
    }

    pub fn claim(&self, name: &str) -> Node {
        let (launch, pool) = (self.launch, self.pool());
        let mut requirements = launch.requirements.clone();
        requirements.push(Requirement::new(label::INSTANCE_TYPE, Operator::In, launch.instance_types.iter().cloned()));
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
            instance_type: Some(self.kind.name.clone()),
            taints: pool.taints.clone(),
            allocatable: self.kind.allocatable.clone(),
            attach_limits: self.kind.attach_limits.clone(),
            price: Some(launch.price),
            ..Node::default()
        }
    }

    /// Returns the largest capacity of the instance types that the NodeClaim permits.
    fn largest(&self) -> Resources {
        let types = &self.snapshot.catalogues[self.pool().catalogue].types;
        let mut largest = Resources::default();
        for kind in types.iter().filter(|it| self.launch.instance_types.contains(&it.name)) {
            for (name, amount) in kind.capacity.iter() {
                largest.set(name, amount.max(largest.get(name)));
            }
        }
        largest
    }

    pub fn reservation(&self) -> Option<&'a Reservation> {
        self.offering.filter(|it| it.capacity_type == CapacityType::Reserved)?.reservation.as_ref()
    }
}

/// Counts one more node of that capacity for the NodePool of the launch.
pub fn account(after: &mut Snapshot, launch: &Launch, capacity: &Resources) {
    let cost = planner::highest_cost(after, launch);
    after.add_cost(&launch.pool, cost);
    let pool = after.pools.iter_mut().find(|pool| pool.name == launch.pool).unwrap();
    pool.usage.add(capacity);
    pool.usage.add(&Resources::from_iter([(Resources::NODES, 1)]));
    pool.running += 1;
}

/// Takes one instance of the reservation, in all offerings of it.
pub fn draw(after: &mut Snapshot, taken: Option<&Reservation>) {
    let Some(taken) = taken else { return };
    let types = after.catalogues.iter_mut().flat_map(|it| &mut Arc::make_mut(it).types);
    for offering in types.flat_map(|kind| &mut kind.offerings) {
        if let Some(reservation) = offering.reservation.as_mut().filter(|it| it.id == taken.id) {
            reservation.remaining = reservation.remaining.saturating_sub(1);
            offering.available &= reservation.remaining > 0;
        }
    }
}
