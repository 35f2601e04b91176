//! Workloads that are split over on-demand and spot: the part of each pod in the split.
//!
//! Of all pods of a workload, running ones included, the base runs on-demand, and of the others a share on spot, rounded down.
//! Running pods are counted by their node; pending pods provide what is missing, those of the base first. The base is required:
//! its pods run on-demand or not at all. The share is a preference: it is dropped last, and for all workloads at once if a pod
//! has no place because of it (`select_best`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{
    CapacitySplit, CapacityType, Millis, Node, Operator, Plan, PodVerdict, Preference, Requirement, Snapshot, label,
};

/// Part of a pod in the split of its workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::provision) enum SplitPart {
    /// The pod runs wherever it is cheapest.
    #[default]
    Free,
    /// The pod belongs to the base, which never runs on spot.
    Base,
    /// The pod prefers this capacity type.
    Preferred(CapacityType),
    /// The pod prefers this capacity type, but this plan drops all such preferences.
    Dropped(CapacityType),
}

impl SplitPart {
    /// Returns the requirement that the split adds to the pod.
    pub(in crate::provision) fn requires(self) -> Option<Requirement> {
        (self == Self::Base).then(|| side(CapacityType::OnDemand))
    }

    /// Returns the capacity type that the pod prefers, with its requirement.
    pub(in crate::provision) fn prefers(self) -> Option<(CapacityType, Requirement)> {
        match self {
            Self::Preferred(of) => Some((of, side(of))),
            _ => None,
        }
    }

    /// Returns the preference that was dropped.
    pub(in crate::provision) fn dropped(self) -> Option<Preference> {
        match self {
            Self::Dropped(of) => Some(Preference::Share { of }),
            _ => None,
        }
    }

    /// Returns the part that applies to the placement: a dropped preference does not count.
    pub(in crate::provision) fn in_force(self) -> Self {
        if matches!(self, Self::Dropped(_)) { Self::Free } else { self }
    }
}

/// Returns the requirement for one side of a split. Reserved capacity is not spare capacity, so it counts as on-demand.
fn side(of: CapacityType) -> Requirement {
    let values: &[CapacityType] = match of {
        CapacityType::Spot => &[CapacityType::Spot],
        CapacityType::OnDemand | CapacityType::Reserved => &[CapacityType::OnDemand, CapacityType::Reserved],
    };
    Requirement::new(label::CAPACITY_TYPE, Operator::In, values.iter().map(|it| it.as_str()))
}

/// Counts of the pods of one workload.
#[derive(Default)]
struct SplitTally {
    /// Running pods that are not placed again, and those of them that are certainly on-demand.
    running: usize,
    on_demand: usize,
    /// Pods to be placed.
    waiting: Vec<usize>,
}

/// Returns the part of every pod, in the order of the snapshot.
pub(in crate::provision) fn split_parts(snapshot: &Snapshot) -> Arc<[SplitPart]> {
    let mut parts = vec![SplitPart::Free; snapshot.pods.len()];
    let mut workloads: BTreeMap<&CapacitySplit, SplitTally> = BTreeMap::new();
    let mut moving: BTreeSet<&str> = BTreeSet::new();
    for (position, pod) in snapshot.pods.iter().enumerate().filter(|(_, pod)| pod.holder.is_none()) {
        if let Some(split) = &pod.mix {
            workloads.entry(split).or_default().waiting.push(position);
            moving.extend(pod.leaving_node.is_some().then_some(pod.uid.as_str()));
        }
    }
    if workloads.is_empty() {
        return parts.into();
    }
    for node in &snapshot.nodes {
        let stays = |uid: &str| !moving.contains(uid);
        for pod in node.pods.iter().filter(|pod| !pod.ending && stays(&pod.uid)) {
            if let Some(counts) = pod.mix.as_deref().and_then(|split| workloads.get_mut(split)) {
                counts.running += 1;
                counts.on_demand += usize::from(is_spot(node) == Some(false));
            }
        }
    }
    let rank = ranks(snapshot, &workloads);
    for (split, mut counts) in workloads {
        counts.waiting.sort_by_key(|pod| rank[pod]);
        for (pod, part) in counts.assign(split) {
            parts[pod] = part;
        }
    }
    parts.into()
}

impl SplitTally {
    /// Assigns parts to the pods to be placed, in their order.
    fn assign(&self, split: &CapacitySplit) -> Vec<(usize, SplitPart)> {
        let (waiting, total) = (self.waiting.len(), self.running + self.waiting.len());
        let base = usize::try_from(split.on_demand_base).unwrap_or(usize::MAX).min(total);
        let base_pods = base.saturating_sub(self.on_demand).min(waiting);
        let others = split.spot_share.map(|share| {
            let spot = (total - base).saturating_mul(usize::from(share.min(100))) / 100;
            let preferred = (total - spot).saturating_sub(self.on_demand + base_pods);
            preferred.min(waiting - base_pods)
        });
        let part = |position: usize| match others {
            _ if position < base_pods => SplitPart::Base,
            None => SplitPart::Free,
            Some(preferred) if position < base_pods + preferred => SplitPart::Preferred(CapacityType::OnDemand),
            Some(_) => SplitPart::Preferred(CapacityType::Spot),
        };
        self.waiting.iter().enumerate().map(|(position, pod)| (*pod, part(position))).collect()
    }
}

/// Returns the order in which pods of a workload receive on-demand parts. Pods with a nomination to on-demand, or from an
/// on-demand node, come first. Pods with a nomination to spot, or from spot, come last, so that plans do not swap pods. Among
/// equals the older pod comes first.
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
    workloads.values().flat_map(|counts| &counts.waiting).map(rank).collect()
}

/// Reports whether a node is spot; `None` when this is unknown: it has no such label, or its claim may become either.
fn is_spot(node: &Node) -> Option<bool> {
    let spot = CapacityType::Spot.as_str();
    if let Some(value) = node.labels.get(label::CAPACITY_TYPE) {
        return Some(value == spot);
    }
    node.requirements.iter().any(excludes_spot).then_some(false)
}

/// Returns the parts with all preferences dropped, if there are any and the plan leaves a pod unschedulable.
pub(in crate::provision) fn without_preferences(parts: &[SplitPart], plan: &Plan) -> Option<Arc<[SplitPart]>> {
    let waits = plan.report.pods.iter().any(|verdict| matches!(verdict, PodVerdict::Unschedulable { .. }));
    let drop = |part: &SplitPart| match part {
        SplitPart::Preferred(of) => SplitPart::Dropped(*of),
        other => *other,
    };
    let has_preferences = parts.iter().any(|part| matches!(part, SplitPart::Preferred(_)));
    (waits && has_preferences).then(|| parts.iter().map(drop).collect())
}

/// Exchanges parts between unschedulable pods of a base and placed pods of their workload that are not part of the base. `attempt`
/// selects the kind of the placed pods. Returns `None` where there are none.
pub(in crate::provision) fn exchanged(
    snapshot: &Snapshot,
    parts: &[SplitPart],
    plan: &Plan,
    attempt: usize,
) -> Option<Arc<[SplitPart]>> {
    let mut workloads: BTreeMap<&CapacitySplit, Vec<usize>> = BTreeMap::new();
    for (position, pod) in snapshot.pods.iter().enumerate() {
        if let Some(split) = pod.mix.as_deref().filter(|_| pod.holder.is_none()) {
            workloads.entry(split).or_default().push(position);
        }
    }
    let pairs: Vec<(usize, usize)> =
        workloads.into_values().flat_map(|pods| pairs(snapshot, pods, parts, plan, attempt)).collect();
    let mut exchanged = parts.to_vec();
    pairs.iter().for_each(|(one, other)| exchanged.swap(*one, *other));
    (!pairs.is_empty()).then(|| exchanged.into())
}

/// Kind of placed pods that may join the base: pods that certainly run on-demand, else those of one shape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BaseCandidates {
    OnDemand,
    Shape(usize),
}

/// Returns pods of one workload that exchange parts, the oldest first. Pods that certainly run on-demand come first, because
/// the next plan counts them as the base.
fn pairs(
    snapshot: &Snapshot,
    mut pods: Vec<usize>,
    parts: &[SplitPart],
    plan: &Plan,
    attempt: usize,
) -> Vec<(usize, usize)> {
    pods.sort_by_key(|pod| (snapshot.pods[*pod].created, &snapshot.pods[*pod].uid));
    let shape = |pod: &usize| snapshot.pods[*pod].shape;
    let waits = |pod: &usize| matches!(plan.report.pods[*pod], PodVerdict::Unschedulable { .. });
    let (missed, placed): (Vec<usize>, Vec<usize>) = pods.into_iter().partition(waits);
    let missed: Vec<usize> = missed.into_iter().filter(|pod| parts[*pod] == SplitPart::Base).collect();
    if missed.is_empty() {
        return Vec::new();
    }
    let refused: BTreeSet<usize> = missed.iter().map(shape).collect();
    let free: Vec<usize> = placed.into_iter().filter(|pod| parts[*pod] != SplitPart::Base).collect();
    let on_demand = free.iter().any(|pod| is_on_demand(snapshot, plan, *pod)).then_some(BaseCandidates::OnDemand);
    let mut kinds: Vec<BaseCandidates> = on_demand.into_iter().collect();
    for shape in free.iter().map(shape).filter(|shape| !refused.contains(shape)) {
        let kind = BaseCandidates::Shape(shape);
        kinds.extend((!kinds.contains(&kind)).then_some(kind));
    }
    let suits = |pod: &usize| match kinds.get(attempt) {
        Some(BaseCandidates::OnDemand) => is_on_demand(snapshot, plan, *pod),
        Some(BaseCandidates::Shape(of)) => shape(pod) == *of,
        None => false,
    };
    missed.into_iter().zip(free.into_iter().filter(suits)).collect()
}

/// Reports whether the place of a pod certainly is no spot capacity.
fn is_on_demand(snapshot: &Snapshot, plan: &Plan, pod: usize) -> bool {
    match &plan.report.pods[pod] {
        PodVerdict::Existing { node, .. } => {
            snapshot.nodes.iter().find(|it| it.name == *node).and_then(|node| is_spot(node)) == Some(false)
        }
        PodVerdict::Launch { launch, .. } => plan.launches[*launch].requirements.iter().any(excludes_spot),
        PodVerdict::Unschedulable { .. } | PodVerdict::Postponed => false,
    }
}

/// Reports whether a requirement allows only other capacity types than spot.
fn excludes_spot(requirement: &Requirement) -> bool {
    let spot = CapacityType::Spot.as_str();
    let is_list = requirement.key == label::CAPACITY_TYPE && requirement.operator == Operator::In;
    is_list && !requirement.values.is_empty() && requirement.values.iter().all(|value| value != spot)
}
