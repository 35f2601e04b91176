//! Side of a workload's split, on-demand or spot, of a moved pod.
//!
//! A command never moves a pod to the other side, with one exception. Pods may run on-demand because spot was unavailable;
//! those beyond the number that the workload requests may return to spot.

use std::collections::BTreeMap;

use crate::{BoundPod, CapacitySplit, CapacityType, Node, Operator, Requirement, Snapshot, label};

/// Number of each workload's pods on on-demand nodes beyond the requested number.
pub(super) struct SplitBalance<'a> {
    surplus: BTreeMap<&'a CapacitySplit, usize>,
}

#[derive(Default)]
struct SplitCount {
    all: usize,
    on_demand: usize,
}

impl<'a> SplitBalance<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut tallies: BTreeMap<&CapacitySplit, SplitCount> = BTreeMap::new();
        for node in snapshot.nodes.iter().filter(|node| node.leaving.is_none()) {
            for mix in node.pods.iter().filter(|pod| !pod.ending).filter_map(|pod| pod.mix.as_deref()) {
                let tally = tallies.entry(mix).or_default();
                tally.all += 1;
                tally.on_demand += usize::from(!is_spot(node));
            }
        }
        for mix in snapshot.pods.iter().filter_map(|pod| pod.mix.as_deref()) {
            tallies.entry(mix).or_default().all += 1;
        }
        let surplus = |(mix, tally): (&'a CapacitySplit, SplitCount)| {
            (mix, tally.on_demand.saturating_sub(wanted(mix, tally.all)))
        };
        Self { surplus: tallies.into_iter().map(surplus).collect() }
    }

    /// Returns the additional requirement of a moved pod of a node. Counts pods that may change sides.
    pub(super) fn keep(&mut self, node: &Node, pod: &BoundPod) -> Option<Requirement> {
        let mix = pod.mix.as_deref()?;
        let own: &[CapacityType] =
            if is_spot(node) { &[CapacityType::Spot] } else { &[CapacityType::OnDemand, CapacityType::Reserved] };
        match self.surplus.get_mut(mix) {
            Some(surplus) if *surplus > 0 && !is_spot(node) => {
                *surplus -= 1;
                None
            }
            _ => Some(Requirement::new(label::CAPACITY_TYPE, Operator::In, own.iter().map(|it| it.as_str()))),
        }
    }
}

/// Returns how many of a workload's pods should be on-demand: the base, and the others without the spot share.
fn wanted(mix: &CapacitySplit, all: usize) -> usize {
    let base = usize::try_from(mix.on_demand_base).unwrap_or(usize::MAX).min(all);
    let spot = mix.spot_share.map_or(all - base, |share| (all - base) * usize::from(share.min(100)) / 100);
    all - spot
}

pub(super) fn is_spot(node: &Node) -> bool {
    node.labels.get(label::CAPACITY_TYPE).map(String::as_str) == Some(CapacityType::Spot.as_str())
}
