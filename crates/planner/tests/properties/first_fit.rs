//! First-fit decreasing in its simplest form: the largest pod first, in the first node that takes it, else on the cheapest new
//! node. Prices are compared last, one pod at a time. Ties are as in Kerf: pods of one shape together, older shapes first; of
//! NodePools with equal prices the last by name.

use std::cmp::Reverse;

use planner::{InstanceType, Offering, Operator, Pool, Requirement, Resources, Snapshot, label};

/// Node with its free capacity.
struct Bin<'a> {
    pool: &'a Pool,
    kind: &'a InstanceType,
    offering: &'a Offering,
    left: Resources,
}

/// Returns the total price of the nodes with their fees, and the names of pods that fit nowhere.
pub fn cost(snapshot: &Snapshot) -> (i64, Vec<String>) {
    let mut queue: Vec<usize> = (0..snapshot.pods.len()).collect();
    let requests = |pod: usize| &snapshot.shapes[snapshot.pods[pod].shape].requests;
    let age = |pod: usize| (snapshot.pods[pod].created, snapshot.pods[pod].uid.as_str());
    let alike = |pod: usize, other: &usize| snapshot.pods[*other].shape == snapshot.pods[pod].shape;
    let oldest = |pod: usize| (0..snapshot.pods.len()).filter(|other| alike(pod, other)).map(age).min();
    queue.sort_by_key(|pod| {
        let size = (requests(*pod).get(Resources::CPU), requests(*pod).get(Resources::MEMORY));
        (Reverse(size), oldest(*pod), age(*pod))
    });
    let (mut bins, mut left): (Vec<Bin<'_>>, Vec<usize>) = (Vec::new(), Vec::new());
    for pod in queue {
        if let Some(bin) = bins.iter_mut().find(|bin| takes(snapshot, pod, bin)) {
            bin.left.subtract(requests(pod));
        } else if let Some(mut bin) = all(snapshot).filter(|bin| takes(snapshot, pod, bin)).min_by_key(price) {
            bin.left.subtract(requests(pod));
            bins.push(bin);
        } else {
            left.push(pod);
        }
    }
    left.sort_unstable();
    (bins.iter().map(price).sum(), left.into_iter().map(|pod| snapshot.pods[pod].name.clone()).collect())
}

fn price(bin: &Bin<'_>) -> i64 {
    bin.offering.price.0 + bin.pool.node_fee.0
}

fn all(snapshot: &Snapshot) -> impl Iterator<Item = Bin<'_>> {
    let of_pool = |pool| snapshot.catalogues[0].types.iter().map(move |kind| (pool, kind));
    let mut pools: Vec<&Pool> = snapshot.pools.iter().collect();
    pools.sort_by_key(|pool| Reverse(pool.name.as_str()));
    pools.into_iter().flat_map(of_pool).flat_map(|(pool, kind)| {
        let bin = move |offering| Bin { pool, kind, offering, left: kind.allocatable.clone() };
        kind.offerings.iter().filter(|it| it.available).map(bin)
    })
}

/// Reports whether a node takes the pod. A new node has the labels of its type, its offering and the NodePool's own
/// requirements.
fn takes(snapshot: &Snapshot, pod: usize, bin: &Bin<'_>) -> bool {
    let shape = &snapshot.shapes[snapshot.pods[pod].shape];
    let holds = |asked: &Requirement| holds(snapshot, bin, asked);
    let terms = if shape.affinity.is_empty() { vec![Vec::new()] } else { shape.affinity.clone() };
    let bears = |taint: &planner::Taint| {
        taint.effect == planner::Effect::PreferNoSchedule || shape.tolerations.iter().any(|it| it.tolerates(taint))
    };
    bin.pool.requirements.iter().all(holds)
        && shape.selector.iter().all(holds)
        && terms.iter().any(|term| term.iter().all(holds))
        && bin.pool.taints.iter().all(bears)
        && shape.requests.fits(&bin.left)
}

fn holds(snapshot: &Snapshot, bin: &Bin<'_>, asked: &Requirement) -> bool {
    let value = match asked.key.as_str() {
        label::ZONE => Some(bin.offering.zone.as_str()),
        label::CAPACITY_TYPE => Some(bin.offering.capacity_type.as_str()),
        label::INSTANCE_TYPE => Some(bin.kind.name.as_str()),
        label::HOSTNAME => Some("a new node"),
        key if snapshot.policy.well_known.contains(key) => bin.kind.labels.get(key).map(|values| values[0].as_str()),
        key => bin.pool.labels.get(key).map(String::as_str),
    };
    let number = |value: &str| value.parse::<i64>().ok();
    let bound = asked.values.first().and_then(|it| number(it));
    match asked.operator {
        Operator::In => value.is_some_and(|value| asked.values.iter().any(|it| it == value)),
        Operator::NotIn => !value.is_some_and(|value| asked.values.iter().any(|it| it == value)),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::Gt => value.and_then(number).zip(bound).is_some_and(|(value, bound)| value > bound),
        Operator::Lt => value.and_then(number).zip(bound).is_some_and(|(value, bound)| value < bound),
        Operator::Gte => value.and_then(number).zip(bound).is_some_and(|(value, bound)| value >= bound),
        Operator::Lte => value.and_then(number).zip(bound).is_some_and(|(value, bound)| value <= bound),
    }
}
