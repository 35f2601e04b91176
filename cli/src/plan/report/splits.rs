//! Workloads that are split over on-demand and spot: pods per capacity type after the plan is carried out.

use std::collections::{BTreeMap, BTreeSet};

use api::label;
use planner::{CapacitySplit, CapacityType, Destination};
use serde::Serialize;

use crate::plan::{PlanAnswer, view};

/// One workload that requests a split.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SplitReport {
    /// `Kind namespace/name` of the pods' controller.
    pub workload: String,
    /// Number of pods that are never placed on spot.
    pub on_demand_base: u32,
    /// Percentage of the other pods for spot; `null` if not set.
    pub spot_share: Option<u8>,
    /// Pods on on-demand or reserved capacity.
    pub on_demand: usize,
    /// Pods on spot capacity.
    pub spot: usize,
    /// Pods on nodes with an unknown capacity type.
    pub unknown: usize,
    /// Pods without a place.
    pub waiting: usize,
}

impl SplitReport {
    fn count(&mut self, capacity_type: &str) {
        let counter = match capacity_type {
            "" => &mut self.unknown,
            capacity_type if capacity_type == CapacityType::Spot.as_str() => &mut self.spot,
            _ => &mut self.on_demand,
        };
        *counter += 1;
    }
}

/// Returns every workload that requests a split and has pods, by its name.
pub(super) fn splits(answer: &PlanAnswer) -> Vec<SplitReport> {
    let snapshot = &answer.built.snapshot;
    let mut all: BTreeMap<&CapacitySplit, SplitReport> = BTreeMap::new();
    let capacity_types = capacity_types(answer);
    let planned = snapshot.pods.iter().enumerate().filter(|(_, pod)| pod.holder.is_none());
    for (mix, position) in planned.clone().filter_map(|(position, pod)| Some((pod.mix.as_deref()?, position))) {
        let split = all.entry(mix).or_default();
        match capacity_types.get(&position) {
            Some(capacity_type) => split.count(capacity_type),
            None => split.waiting += 1,
        }
    }
    let known: BTreeSet<&str> = planned.map(|(_, pod)| pod.uid.as_str()).collect();
    let destinations = destinations(answer);
    for node in &snapshot.nodes {
        let own = node.labels.get(label::CAPACITY_TYPE).map_or("", String::as_str);
        for pod in node.pods.iter().filter(|pod| !pod.ending && !known.contains(pod.uid.as_str())) {
            if let Some(mix) = &pod.mix {
                all.entry(mix).or_default().count(destinations.get(pod.uid.as_str()).map_or(own, String::as_str));
            }
        }
    }
    let named = |(mix, split): (&CapacitySplit, SplitReport)| SplitReport {
        workload: mix.workload.clone(),
        on_demand_base: mix.on_demand_base,
        spot_share: mix.spot_share,
        ..split
    };
    all.into_iter().map(named).collect()
}

/// Returns the capacity type of each placed pod's node. A NodeClaim that allows both counts as its likely capacity type.
fn capacity_types(answer: &PlanAnswer) -> BTreeMap<usize, String> {
    let rows = view::launched(answer).into_iter().chain(view::existing(answer));
    rows.flat_map(|it| it.pods.into_iter().map(move |pod| (pod, it.capacity_type.clone()))).collect()
}

/// Returns the capacity type of the destination for running pods that move, by UID.
fn destinations(answer: &PlanAnswer) -> BTreeMap<&str, String> {
    let launched = view::launched(answer);
    let capacity_type = |to: &Destination| match to {
        Destination::Launch(position) => launched.get(*position).map(|it| it.capacity_type.clone()),
        Destination::Node(name) => {
            let node = answer.built.snapshot.nodes.iter().find(|node| node.name == *name);
            node.and_then(|node| node.labels.get(label::CAPACITY_TYPE)).cloned()
        }
    };
    let pods = answer.plan.moves.iter().flat_map(|it| &it.pods);
    pods.map(|pod| (pod.uid.as_str(), capacity_type(&pod.to).unwrap_or_default())).collect()
}

/// Returns the split that the pods of a workload request together.
pub(crate) fn requested_split(on_demand_base: u32, spot_share: Option<u8>) -> String {
    let base = (on_demand_base > 0).then(|| format!("{on_demand_base} never on spot"));
    let share = spot_share.map(|share| match base {
        Some(_) => format!("{share} % of the others on spot"),
        None => format!("{share} % on spot"),
    });
    base.into_iter().chain(share).collect::<Vec<_>>().join(", ")
}
