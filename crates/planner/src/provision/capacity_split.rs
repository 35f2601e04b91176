//! Workloads that are split over on-demand and spot: what each pod's part in the split is.
//!
//! Of all pods of a workload, running ones included, the base goes to on-demand, and of the others a share to spot, rounded
//! down. What runs already is counted by its node; the pods to be placed make up for what is missing, those of the base
//! first. The base is a promise: its pods take on-demand or nothing. The share is a request: it is the last that is dropped, and
//! it is dropped for all when somebody has no place because of it (`contest`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{
    CapacitySplit, CapacityType, Millis, Node, Operator, Plan, PodVerdict, Preference, Requirement, Snapshot, label,
};

/// What its workload's split makes of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SplitPart {
    /// It goes wherever it is cheapest.
    #[default]
    Free,
    /// It is of the base, which never goes to spot.
    Base,
    /// It would like to be there.
    Wish(CapacityType),
    /// It would like to be there, but all requests are dropped in this plan.
    Dropped(CapacityType),
}

impl SplitPart {
    /// What the pod requires beside what it says itself.
    pub(super) fn requires(self) -> Option<Requirement> {
        (self == Self::Base).then(|| side(CapacityType::OnDemand))
    }

    /// What it would like to have.
    pub(super) fn likes(self) -> Option<(CapacityType, Requirement)> {
        match self {
            Self::Wish(of) => Some((of, side(of))),
            _ => None,
        }
    }

    /// What a dropped request was about.
    pub(super) fn dropped(self) -> Option<Preference> {
        match self {
            Self::Dropped(of) => Some(Preference::Share { of }),
            _ => None,
        }
    }

    /// The same for placing the pod: without a request it is like any other.
    pub(super) fn in_force(self) -> Self {
        if matches!(self, Self::Dropped(_)) { Self::Free } else { self }
    }
}

/// Nodes on one side of a split. What is reserved is no spare capacity, so it is with on-demand.
fn side(of: CapacityType) -> Requirement {
    let values: &[CapacityType] = match of {
        CapacityType::Spot => &[CapacityType::Spot],
        CapacityType::OnDemand | CapacityType::Reserved => &[CapacityType::OnDemand, CapacityType::Reserved],
    };
    Requirement::new(label::CAPACITY_TYPE, Operator::In, values.iter().map(|it| it.as_str()))
}

/// The pods of one workload.
#[derive(Default)]
struct SplitTally {
    /// Pods that run and stay, and those of them that are on demand for certain.
    running: usize,
    on_demand: usize,
    /// Pods to be placed.
    waiting: Vec<usize>,
}

/// The part of every pod, in the order of the snapshot.
pub(super) fn split_parts(snapshot: &Snapshot) -> Arc<[SplitPart]> {
    let mut parts = vec![SplitPart::Free; snapshot.pods.len()];
    let mut workloads: BTreeMap<&CapacitySplit, SplitTally> = BTreeMap::new();
    let mut moving: BTreeSet<&str> = BTreeSet::new();
    for (position, pod) in snapshot.pods.iter().enumerate().filter(|(_, pod)| pod.buffer.is_none()) {
        if let Some(mix) = &pod.mix {
            workloads.entry(mix).or_default().waiting.push(position);
            moving.extend(pod.leaving_node.is_some().then_some(pod.uid.as_str()));
        }
    }
    if workloads.is_empty() {
        return parts.into();
    }
    for node in &snapshot.nodes {
        let stays = |uid: &str| !moving.contains(uid);
        for pod in node.pods.iter().filter(|pod| !pod.ending && stays(&pod.uid)) {
            if let Some(tally) = pod.mix.as_deref().and_then(|mix| workloads.get_mut(mix)) {
                tally.running += 1;
                tally.on_demand += usize::from(is_spot(node) == Some(false));
            }
        }
    }
    let rank = ranks(snapshot, &workloads);
    for (mix, mut tally) in workloads {
        tally.waiting.sort_by_key(|pod| rank[pod]);
        for (pod, part) in tally.deal(mix) {
            parts[pod] = part;
        }
    }
    parts.into()
}

impl SplitTally {
    /// The parts of the pods to be placed, in their order.
    fn deal(&self, mix: &CapacitySplit) -> Vec<(usize, SplitPart)> {
        let (waiting, total) = (self.waiting.len(), self.running + self.waiting.len());
        let base = usize::try_from(mix.on_demand_base).unwrap_or(usize::MAX).min(total);
        let promised = base.saturating_sub(self.on_demand).min(waiting);
        let others = mix.spot_share.map(|share| {
            let spot = (total - base).saturating_mul(usize::from(share.min(100))) / 100;
            let wished = (total - spot).saturating_sub(self.on_demand + promised);
            wished.min(waiting - promised)
        });
        let part = |position: usize| match others {
            _ if position < promised => SplitPart::Base,
            None => SplitPart::Free,
            Some(wished) if position < promised + wished => SplitPart::Wish(CapacityType::OnDemand),
            Some(_) => SplitPart::Wish(CapacityType::Spot),
        };
        self.waiting.iter().enumerate().map(|(position, pod)| (*pod, part(position))).collect()
    }
}

/// The order in which pods of a workload take on-demand: those first that were promised it or come from there, those last
/// that were promised spot or come from it, so that plans do not swap pods; then by age.
fn ranks<'a>(
    snapshot: &'a Snapshot,
    workloads: &BTreeMap<&CapacitySplit, SplitTally>,
) -> BTreeMap<usize, (u8, Millis, &'a str)> {
    let nodes: BTreeMap<&str, &Node> = snapshot.nodes.iter().map(|node| (node.name.as_str(), node.as_ref())).collect();
    let rank = |pod: &usize| {
        let object = &snapshot.pods[*pod];
        let known = object.nominated.as_ref().or(object.leaving_node.as_ref());
        let rank = match known.and_then(|name| is_spot(nodes.get(name.as_str())?)) {
            Some(false) => 0,
            None => 1,
            Some(true) => 2,
        };
        (*pod, (rank, object.created, object.uid.as_str()))
    };
    workloads.values().flat_map(|tally| &tally.waiting).map(rank).collect()
}

/// Whether a node is spot; `None` when nobody can know: it has no such label, or its claim may become either.
fn is_spot(node: &Node) -> Option<bool> {
    let spot = CapacityType::Spot.as_str();
    if let Some(value) = node.labels.get(label::CAPACITY_TYPE) {
        return Some(value == spot);
    }
    let mut open = node.requirements.iter().filter(|it| it.key == label::CAPACITY_TYPE && it.operator == Operator::In);
    let never = |it: &Requirement| !it.values.is_empty() && it.values.iter().all(|value| value != spot);
    open.any(never).then_some(false)
}

/// The same with all requests dropped, if there are any and the plan leaves someone without a place.
pub(super) fn without_preferences(parts: &[SplitPart], plan: &Plan) -> Option<Arc<[SplitPart]>> {
    let waits = plan.report.pods.iter().any(|verdict| matches!(verdict, PodVerdict::Unschedulable { .. }));
    let drop = |part: &SplitPart| match part {
        SplitPart::Wish(of) => SplitPart::Dropped(*of),
        other => *other,
    };
    let wishes = parts.iter().any(|part| matches!(part, SplitPart::Wish(_)));
    (waits && wishes).then(|| parts.iter().map(drop).collect())
}

/// The same where pods of a base that find no place change parts with pods of their workload that have one and ask for something
/// else: those of the shape whose turn it is. `None` where there are none.
pub(super) fn exchanged(
    snapshot: &Snapshot,
    parts: &[SplitPart],
    plan: &Plan,
    turn: usize,
) -> Option<Arc<[SplitPart]>> {
    let mut workloads: BTreeMap<&CapacitySplit, Vec<usize>> = BTreeMap::new();
    for (position, pod) in snapshot.pods.iter().enumerate() {
        if let Some(mix) = pod.mix.as_deref().filter(|_| pod.buffer.is_none()) {
            workloads.entry(mix).or_default().push(position);
        }
    }
    let pairs: Vec<(usize, usize)> =
        workloads.into_values().flat_map(|pods| pairs(snapshot, pods, parts, plan, turn)).collect();
    let mut exchanged = parts.to_vec();
    pairs.iter().for_each(|(one, other)| exchanged.swap(*one, *other));
    (!pairs.is_empty()).then(|| exchanged.into())
}

/// Pods of one workload that change parts, the oldest first.
fn pairs(
    snapshot: &Snapshot,
    mut pods: Vec<usize>,
    parts: &[SplitPart],
    plan: &Plan,
    turn: usize,
) -> Vec<(usize, usize)> {
    pods.sort_by_key(|pod| (snapshot.pods[*pod].created, &snapshot.pods[*pod].uid));
    let shape = |pod: &usize| snapshot.pods[*pod].shape;
    let waits = |pod: &usize| matches!(plan.report.pods[*pod], PodVerdict::Unschedulable { .. });
    let (missed, placed): (Vec<usize>, Vec<usize>) = pods.into_iter().partition(waits);
    let missed: Vec<usize> = missed.into_iter().filter(|pod| parts[*pod] == SplitPart::Base).collect();
    let refused: BTreeSet<usize> = missed.iter().map(shape).collect();
    let free = placed.into_iter().filter(|pod| parts[*pod] != SplitPart::Base && !refused.contains(&shape(pod)));
    let free: Vec<usize> = free.collect();
    let mut shapes: Vec<usize> = Vec::new();
    free.iter().map(shape).for_each(|shape| shapes.extend((!shapes.contains(&shape)).then_some(shape)));
    let suits = |pod: &usize| shapes.get(turn) == Some(&shape(pod));
    missed.into_iter().zip(free.into_iter().filter(suits)).collect()
}
