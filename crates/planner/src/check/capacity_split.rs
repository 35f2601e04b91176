//! Workloads that are split over on-demand and spot: the base never runs on spot, and no command moves it there. The verdict of
//! a pod that deviates from the share contains this.

use std::collections::{BTreeMap, BTreeSet};

use crate::{CapacitySplit, CapacityType, Destination, Plan, PodVerdict, Preference, Snapshot, label};

use super::Findings;
use super::node_places::NodePlace;
use super::verdicts::{self, AssignedNode};

/// Side of a pod, as far as known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SplitSide {
    Spot,
    OnDemand,
    Unknown,
}

/// Pods of one workload, by their sides.
#[derive(Default)]
struct SplitWorkload {
    /// Running pods that are not placed again, before and after all commands.
    before: Vec<SplitSide>,
    after: Vec<SplitSide>,
    /// Pods that need a place, with their side and the preference that was dropped.
    placed: Vec<(Option<SplitSide>, Option<CapacityType>)>,
}

pub(super) fn check(snapshot: &Snapshot, plan: &Plan, places: &[NodePlace<'_>], findings: &mut Findings) {
    for (mix, workload) in workloads(snapshot, plan, places) {
        workload.check(mix, findings);
    }
}

fn workloads<'a>(
    snapshot: &'a Snapshot,
    plan: &Plan,
    places: &[NodePlace<'_>],
) -> BTreeMap<&'a CapacitySplit, SplitWorkload> {
    let sides: Vec<SplitSide> = places.iter().map(side).collect();
    let node = |name: &str| snapshot.nodes.iter().position(|node| node.name == name).map(|it| sides[it]);
    let launch = |position: usize| sides.get(snapshot.nodes.len() + position).copied();
    let mut workloads: BTreeMap<&CapacitySplit, SplitWorkload> = BTreeMap::new();
    let mut replaced: BTreeSet<&str> = BTreeSet::new();
    for (pod, verdict) in snapshot.pods.iter().zip(&plan.report.pods).filter(|(pod, _)| pod.holder.is_none()) {
        let Some(mix) = &pod.mix else { continue };
        let side = verdicts::place(verdict).and_then(|there| match there {
            AssignedNode::Node(name) => node(name),
            AssignedNode::Launch(position) => launch(position),
        });
        workloads.entry(mix).or_default().placed.push((side, given_up(verdict)));
        replaced.insert(&pod.uid);
    }
    let moved = |uid: &str| {
        let to = plan.moves.iter().flat_map(|it| &it.pods).find(|pod| pod.uid == uid)?;
        match &to.to {
            Destination::Node(name) => node(name),
            Destination::Launch(position) => launch(*position),
        }
    };
    for (position, node) in snapshot.nodes.iter().enumerate() {
        for pod in node.pods.iter().filter(|pod| !pod.ending && !replaced.contains(pod.uid.as_str())) {
            let Some(mix) = &pod.mix else { continue };
            let workload = workloads.entry(mix).or_default();
            workload.before.push(sides[position]);
            workload.after.push(moved(&pod.uid).unwrap_or(sides[position]));
        }
    }
    workloads
}

/// Returns the side that all possible nodes of a place share.
fn side(place: &NodePlace<'_>) -> SplitSide {
    let values = place.values(label::CAPACITY_TYPE);
    let spot = |value: &Option<String>| value.as_deref() == Some(CapacityType::Spot.as_str());
    let known = !values.is_empty() && values.iter().all(Option::is_some);
    match (known, values.iter().any(spot)) {
        (true, false) => SplitSide::OnDemand,
        (true, true) if values.iter().all(spot) => SplitSide::Spot,
        _ => SplitSide::Unknown,
    }
}

/// Returns the side that the pod preferred and does not need to have.
fn given_up(verdict: &PodVerdict) -> Option<CapacityType> {
    let (PodVerdict::Existing { dropped, .. } | PodVerdict::Launch { dropped, .. }) = verdict else { return None };
    dropped.iter().find_map(|it| match it {
        Preference::Share { of } => Some(*of),
        _ => None,
    })
}

fn count<T>(all: &[T], counts: impl Fn(&T) -> bool) -> usize {
    all.iter().filter(|it| counts(it)).count()
}

impl SplitWorkload {
    fn check(&self, mix: &CapacitySplit, findings: &mut Findings) {
        let subject = format!("workload {}", mix.workload);
        let (waiting, total) = (self.placed.len(), self.placed.len() + self.before.len());
        let base = (mix.on_demand_base as usize).min(total);
        let (running, left) = (count(&self.before, is_safe), count(&self.after, is_safe));
        // One by one: while on-demand pods are missing, a pod belongs to the base; a pod beyond the spot share should be
        // on-demand.
        let (mut of_base, mut on_demand) = (0, 0);
        let spot = mix.spot_share.map(|share| (total - base) * usize::from(share.min(100)) / 100);
        for _ in 0..waiting {
            if running + of_base < base {
                of_base += 1;
            } else if spot.is_some_and(|spot| running + of_base + on_demand < total - spot) {
                on_demand += 1;
            }
        }
        let unsafe_ones = count(&self.placed, |(side, _)| side.is_some_and(|side| side != SplitSide::OnDemand));
        findings.expect(unsafe_ones + of_base <= waiting, &subject, || {
            format!("{unsafe_ones} of {waiting} pods may go to spot, {of_base} are of the base")
        });
        findings.expect(left >= running.min(base), &subject, || {
            format!("moves leave {left} of {running} pods on demand, the base is {base}")
        });
        if spot.is_none() {
            return;
        }
        let gave_up = |of: CapacityType| count(&self.placed, |(_, given_up)| *given_up == Some(of));
        let others = waiting - of_base - on_demand + gave_up(CapacityType::OnDemand);
        findings.expect(unsafe_ones <= others, &subject, || {
            format!("{unsafe_ones} pods may go to spot, {others} by the share and what was dropped of it")
        });
        let elsewhere = count(&self.placed, |(side, _)| side.is_some_and(|side| side != SplitSide::Spot));
        let others = of_base + on_demand + gave_up(CapacityType::Spot);
        findings.expect(elsewhere <= others, &subject, || {
            format!("{elsewhere} pods may miss spot, {others} by the share and what was dropped of it")
        });
    }
}

fn is_safe(side: &SplitSide) -> bool {
    *side == SplitSide::OnDemand
}
