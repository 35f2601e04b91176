//! Simulated cluster in which the plan's pods have their places, and the pods of candidates are pods to be placed.

pub(super) mod buffer_pods;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::split_balance::SplitBalance;
use crate::{
    BoundPod, Launch, Millis, Node, Operator, PaidShare, Plan, Pod, PodShape, PodVerdict, Requirement, Requirements,
    Resize, Size, Snapshot, Stage, ValueSet, highest_cost, label, utilization_limit,
};

/// Node, by its position in the snapshot.
pub(super) type Position = usize;

/// Positions of shapes, by address and by the requirement that a split adds.
type Shapes = BTreeMap<(*const PodShape, Option<Requirement>), usize>;

/// Snapshot in which pods of some nodes occur twice: where they run, and as pods that may receive another place.
pub(super) struct SimulatedCluster {
    pub(super) snapshot: Snapshot,
    /// By node, the positions of its pods that would need another place.
    pub(super) own: Vec<Vec<usize>>,
    /// By pod, its usage, or an estimate if it was not measured.
    pub(super) uses: Vec<Size>,
    /// By pod, its measured usage.
    pub(super) seen: Vec<Size>,
    /// UIDs of the pods that need a running copy before their eviction.
    pub(super) surging: BTreeSet<String>,
}

impl SimulatedCluster {
    /// Creates the simulation. `free` are the positions of candidates, `raised` the requests that running pods regain.
    pub(super) fn new(snapshot: &Snapshot, plan: &Plan, free: &[Position], raised: &[Resize]) -> Self {
        let mut settled = snapshot.clone();
        settle(&mut settled, plan);
        raised.iter().for_each(|resize| raise(&mut settled, resize));
        let own = vec![Vec::new(); settled.nodes.len()];
        let uses = uses(&settled);
        let seen = vec![Size::default(); uses.len()];
        let mut simulation = Self { snapshot: settled, own, uses, seen, surging: BTreeSet::new() };
        let shapes = simulation.snapshot.shapes.iter().enumerate();
        let mut known: Shapes = shapes.map(|(position, shape)| ((Arc::as_ptr(shape), None), position)).collect();
        let mut sides = SplitBalance::new(snapshot);
        for node in free {
            simulation.take_in(*node, &mut known, &mut sides);
            simulation.expect_successor(*node);
        }
        simulation
    }

    /// Allows a static NodePool one more node for each of its candidates.
    fn expect_successor(&mut self, node: Position) {
        let own = self.snapshot.nodes[node].pool.clone();
        if let Some(pool) = self.snapshot.pools.iter_mut().find(|pool| Some(&pool.name) == own.as_ref()) {
            pool.replicas = pool.replicas.map(|replicas| replicas.max(pool.running) + 1);
        }
    }

    fn take_in(&mut self, position: Position, known: &mut Shapes, sides: &mut SplitBalance<'_>) {
        let node = Arc::clone(&self.snapshot.nodes[position]);
        let mut pods: Vec<&BoundPod> = node.pods.iter().filter(|pod| pod.reschedulable).collect();
        pods.sort_by_key(|pod| (&pod.name, &pod.uid));
        for pod in pods {
            let shapes = &mut self.snapshot.shapes;
            let side = sides.keep(&node, pod);
            let shape = *known.entry((Arc::as_ptr(&pod.shape), side.clone())).or_insert_with(|| {
                let mut shape = Arc::clone(&pod.shape);
                if let Some(side) = side {
                    Arc::make_mut(&mut shape).selector.push(side);
                }
                shapes.push(shape);
                shapes.len() - 1
            });
            self.own[position].push(self.snapshot.pods.len());
            self.uses.push(utilization_limit::usage_of(pod));
            self.seen.push(pod.used.unwrap_or_default());
            self.surging.extend(pod.surges.then(|| pod.uid.clone()));
            self.snapshot.pods.push(Pod {
                uid: pod.uid.clone(),
                name: pod.name.clone(),
                shape,
                created: Millis::default(),
                leaving_node: Some(node.name.clone()),
                claims: pod.claims.clone(),
                holder: pod.holder.clone(),
                ..Pod::default()
            });
        }
    }
}

/// Returns the usage of pending pods: pods of leaving nodes count with their usage there, pods of CapacityBuffers with nothing.
fn uses(snapshot: &Snapshot) -> Vec<Size> {
    let leaving = snapshot.nodes.iter().filter(|node| node.leaving.is_some()).flat_map(|node| &node.pods);
    let known: BTreeMap<&str, Size> = leaving.map(|pod| (pod.uid.as_str(), utilization_limit::usage_of(pod))).collect();
    let of_pod = |pod: &Pod| match pod.holder {
        Some(_) => Size::default(),
        None => {
            known.get(pod.uid.as_str()).copied().unwrap_or(Size::from_resources(&snapshot.shapes[pod.shape].requests))
        }
    };
    snapshot.pods.iter().map(of_pod).collect()
}

/// Records the plan's places as nominations and its launches as in-flight nodes.
fn settle(settled: &mut Snapshot, plan: &Plan) {
    for (position, launch) in plan.launches.iter().enumerate() {
        draw(settled, launch);
        if let Some(node) = on_its_way(settled, position, launch) {
            settled.nodes.push(Arc::new(node));
        }
    }
    for (pod, verdict) in settled.pods.iter_mut().zip(&plan.report.pods) {
        pod.nominated = match verdict {
            PodVerdict::Existing { node, .. } => Some(node.clone()),
            PodVerdict::Launch { launch, .. } => Some(name(*launch)),
            PodVerdict::Unschedulable { .. } | PodVerdict::Postponed => None,
        };
    }
    for (order, pod) in plan.report.order.iter().enumerate() {
        settled.pods[*pod].nominated_after = order;
    }
}

/// Reserves the capacity that a pod regains.
fn raise(settled: &mut Snapshot, resize: &Resize) {
    let Some(node) = settled.nodes.iter_mut().find(|node| node.name == resize.node) else { return };
    let more = resize.containers.iter().fold(Size::default(), |sum, it| sum.plus(it.to.minus(it.from)));
    Arc::make_mut(node).used.add(&more.resources());
}

/// Subtracts a launch from its capacity reservation, or from the commitment that pays for it.
fn draw(settled: &mut Snapshot, launch: &Launch) {
    if let Some(share) = paid_share(settled, launch)
        && let Some(commitment) = settled.commitments.iter_mut().find(|it| it.name == share.commitment)
    {
        commitment.left -= share.amount;
    }
    let requirements: Requirements = launch.requirements.iter().collect();
    let Some(id) = requirements.get(label::RESERVATION_ID).and_then(ValueSet::single) else { return };
    for catalogue in &mut settled.catalogues {
        let types = &mut Arc::make_mut(catalogue).types;
        for offering in types.iter_mut().flat_map(|kind| &mut kind.offerings) {
            if let Some(reservation) = offering.reservation.as_mut().filter(|it| it.id == id) {
                reservation.remaining = reservation.remaining.saturating_sub(1);
                offering.available &= reservation.remaining > 0;
            }
        }
    }
}

/// Returns what the first type of a launch uses of the commitment that pays for it.
fn paid_share(snapshot: &Snapshot, launch: &Launch) -> Option<PaidShare> {
    let commitment = snapshot.commitment(launch.commitment.as_ref()?)?;
    let amount = commitment.use_of(launch.instance_types.first()?)?;
    Some(PaidShare { commitment: commitment.name.clone(), amount, price: launch.price })
}

/// Returns a name for a launch; no node has a name with a space.
fn name(launch: usize) -> String {
    format!("launch {launch}")
}

fn on_its_way(snapshot: &mut Snapshot, position: usize, launch: &Launch) -> Option<Node> {
    let cost = highest_cost(snapshot, launch);
    let paid = paid_share(snapshot, launch).into_iter().collect();
    snapshot.add_cost(&launch.pool, cost);
    let pool = snapshot.pools.iter_mut().find(|pool| pool.name == launch.pool)?;
    let types = &snapshot.catalogues.get(pool.catalogue)?.types;
    let kind = types.iter().find(|kind| Some(&kind.name) == launch.instance_types.first())?;
    let mut requirements = launch.requirements.clone();
    requirements.push(Requirement::new(label::INSTANCE_TYPE, Operator::In, launch.instance_types.iter().cloned()));
    let mut labels = pool.labels.clone();
    for (key, set) in requirements.iter().collect::<Requirements>().iter() {
        labels.extend(set.single().map(|value| (key.to_owned(), value.to_owned())));
    }
    pool.usage.add(&kind.capacity);
    pool.usage.add(&crate::Resources::from_iter([(crate::Resources::NODES, 1)]));
    pool.running += 1;
    Some(Node {
        name: name(position),
        claim: Some(name(position)),
        pool: Some(pool.name.clone()),
        stage: Stage::InFlight,
        labels,
        requirements,
        instance_type: Some(kind.name.clone()),
        taints: pool.taints.clone(),
        allocatable: kind.allocatable.clone(),
        attach_limits: kind.attach_limits.clone(),
        price: Some(launch.price),
        paid,
        ..Node::default()
    })
}
