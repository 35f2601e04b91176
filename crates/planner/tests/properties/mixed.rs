//! Random clusters whose workloads are split over on-demand and spot.

use std::sync::Arc;

use planner::{CapacitySplit, CapacityType, Operator, Plan, PodShape, PodVerdict, Requirement, Snapshot, label};
use proptest::prelude::{Strategy, any};
use proptest::{collection, option};

use super::constrained;
use crate::clusters::Cluster;

/// Returns clusters in which pods of one shape are a workload, and most workloads have a base, a share or both.
pub fn mixed() -> impl Strategy<Value = Cluster> {
    let mixes = collection::vec(option::weighted(0.7, (0u32..4, option::of(0u8..=100))), 6);
    (constrained::constrained(), mixes, any::<bool>()).prop_map(|(Cluster(mut snapshot), mixes, both_sides)| {
        split(&mut snapshot, &mixes);
        if both_sides {
            let does_not_name_it = |it: &Requirement| it.key != label::CAPACITY_TYPE;
            snapshot.pools.iter_mut().for_each(|pool| pool.requirements.retain(does_not_name_it));
        }
        Cluster(snapshot)
    })
}

fn split(snapshot: &mut Snapshot, mixes: &[Option<(u32, Option<u8>)>]) {
    let shapes = snapshot.shapes.clone();
    let mix = |shape: &PodShape| {
        let workload = shapes.iter().position(|it| **it == *shape).unwrap();
        let (on_demand_base, spot_share) = mixes[workload % mixes.len()]?;
        let name = format!("n/workload-{workload}");
        Some(Arc::new(CapacitySplit { workload: name.clone(), owner: name, on_demand_base, spot_share }))
    };
    snapshot.pods.iter_mut().for_each(|pod| pod.mix = mix(&shapes[pod.shape]));
    for node in &mut snapshot.nodes {
        for pod in &mut Arc::make_mut(node).pods {
            pod.mix = shapes.contains(&pod.shape).then(|| mix(&pod.shape)).flatten();
        }
    }
}

/// Returns the same cluster with bases only.
pub fn without_shares(snapshot: &Snapshot) -> Snapshot {
    let mut bare = snapshot.clone();
    let drop = |mix: &mut Option<Arc<CapacitySplit>>| {
        if let Some(mix) = mix {
            Arc::make_mut(mix).spot_share = None;
        }
    };
    bare.pods.iter_mut().for_each(|pod| drop(&mut pod.mix));
    for node in &mut bare.nodes {
        Arc::make_mut(node).pods.iter_mut().for_each(|pod| drop(&mut pod.mix));
    }
    bare
}

/// Returns workloads with more pods possibly on spot than the base permits.
pub fn broken_promises(snapshot: &Snapshot, plan: &Plan) -> Vec<String> {
    let mut workloads: Vec<&CapacitySplit> = snapshot.pods.iter().filter_map(|pod| pod.mix.as_deref()).collect();
    workloads.sort();
    workloads.dedup();
    let broken = |mix: &&CapacitySplit| {
        let own = |pod: &planner::Pod| pod.holder.is_none() && pod.mix.as_deref() == Some(*mix);
        let planned: Vec<usize> = (0..snapshot.pods.len()).filter(|pod| own(&snapshot.pods[*pod])).collect();
        let stays = |uid: &str| !planned.iter().any(|pod| snapshot.pods[*pod].uid == uid);
        let on_demand: usize = snapshot
            .nodes
            .iter()
            .filter(|node| !may_be_spot(&node.labels.get(label::CAPACITY_TYPE).cloned(), &node.requirements))
            .flat_map(|node| &node.pods)
            .filter(|pod| !pod.ending && pod.mix.as_deref() == Some(*mix) && stays(&pod.uid))
            .count();
        let on_spot = planned.iter().filter(|pod| goes_to_spot(snapshot, plan, **pod)).count();
        let missing = (mix.on_demand_base as usize).saturating_sub(on_demand);
        on_spot > planned.len().saturating_sub(missing)
    };
    workloads.into_iter().filter(broken).map(|mix| mix.workload.clone()).collect()
}

fn goes_to_spot(snapshot: &Snapshot, plan: &Plan, pod: usize) -> bool {
    match &plan.report.pods[pod] {
        PodVerdict::Existing { node, .. } => {
            let node = snapshot.nodes.iter().find(|it| it.name == *node).unwrap();
            may_be_spot(&node.labels.get(label::CAPACITY_TYPE).cloned(), &node.requirements)
        }
        PodVerdict::Launch { launch, .. } => may_be_spot(&None, &plan.launches[*launch].requirements),
        _ => false,
    }
}

/// Reports whether a node may be spot by its label or its claim.
fn may_be_spot(labelled: &Option<String>, requirements: &[Requirement]) -> bool {
    let spot = CapacityType::Spot.as_str();
    match labelled {
        Some(label) => label == spot,
        None => !requirements.iter().any(|it| {
            it.key == label::CAPACITY_TYPE && it.operator == Operator::In && it.values.iter().all(|value| value != spot)
        }),
    }
}
