//! Cost of the fleet that would be launched for the pods of a cluster if it had no nodes of NodePools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{Catalogue, MicroDollars, Node, Pod, PodShape, PodVerdict, Resources, Snapshot, label, plan};

/// Cost of a fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetCost {
    /// Number of nodes.
    pub nodes: usize,
    /// Price per hour, with the cost of each node beside its instance.
    pub price: MicroDollars,
    /// Number of pods without a place.
    pub unplaced: usize,
}

/// Plans the fleet for the pods of a cluster from the beginning.
#[must_use]
pub fn new_fleet(snapshot: &Snapshot) -> FleetCost {
    let empty = without_nodes(snapshot);
    let plan = plan(&empty);
    let fee = |pool: &String| empty.pools.iter().find(|own| own.name == *pool).map_or(0, |own| own.node_fee.0);
    let price = plan.launches.iter().map(|launch| launch.price.0 + fee(&launch.pool)).sum();
    let is_unplaced =
        |verdict: &&PodVerdict| matches!(verdict, PodVerdict::Unschedulable { .. } | PodVerdict::Postponed);
    let unplaced = plan.report.pods.iter().filter(is_unplaced).count();
    FleetCost { nodes: plan.launches.len(), price: MicroDollars(price), unplaced }
}

/// Returns the same cluster without the nodes of NodePools. Their pods are pending.
#[must_use]
pub fn without_nodes(snapshot: &Snapshot) -> Snapshot {
    let mut empty = snapshot.clone();
    let (removed, kept): (Vec<_>, Vec<_>) = empty.nodes.into_iter().partition(|node| node.claim.is_some());
    empty.nodes = kept;
    let names: BTreeSet<&str> = removed.iter().map(|node| node.name.as_str()).collect();
    // The pods of leaving nodes are pending already. They are added with all others of their node.
    empty.pods.retain(|pod| pod.leaving_node.as_deref().is_none_or(|node| !names.contains(node)));
    for pod in &mut empty.pods {
        pod.nominated = None;
    }
    for pool in &mut empty.pools {
        (pool.usage, pool.running, pool.paused_until) = (Resources::default(), 0, None);
        pool.cost = MicroDollars::default();
    }
    empty.spend_limits.iter_mut().for_each(|limit| limit.cost = MicroDollars::default());
    let shapes = empty.shapes.iter().enumerate();
    let mut positions: BTreeMap<*const PodShape, usize> =
        shapes.map(|(position, shape)| (Arc::as_ptr(shape), position)).collect();
    for pod in removed.iter().flat_map(|node| &node.pods).filter(|pod| pod.reschedulable && !pod.ending) {
        let shape = *positions.entry(Arc::as_ptr(&pod.shape)).or_insert_with(|| {
            empty.shapes.push(Arc::clone(&pod.shape));
            empty.shapes.len() - 1
        });
        empty.pods.push(Pod {
            uid: pod.uid.clone(),
            name: pod.name.clone(),
            shape,
            claims: pod.claims.clone(),
            holder: pod.holder.clone(),
            mix: pod.mix.clone(),
            ..Pod::default()
        });
    }
    release_reservations(&mut empty.catalogues, &removed);
    removed.iter().for_each(|node| empty.release(&node.paid));
    empty
}

/// Returns the instances of removed nodes to their capacity reservations.
fn release_reservations(catalogues: &mut [Arc<Catalogue>], removed: &[Arc<Node>]) {
    let mut freed: BTreeMap<&str, u32> = BTreeMap::new();
    for id in removed.iter().filter_map(|node| node.labels.get(label::RESERVATION_ID)) {
        *freed.entry(id).or_default() += 1;
    }
    if freed.is_empty() {
        return;
    }
    for catalogue in catalogues {
        let types = &mut Arc::make_mut(catalogue).types;
        for offering in types.iter_mut().flat_map(|kind| &mut kind.offerings) {
            let Some(reservation) = &mut offering.reservation else { continue };
            if let Some(more) = freed.get(reservation.id.as_str()) {
                reservation.remaining += more;
                offering.available = true;
            }
        }
    }
}

#[cfg(test)]
mod tests;
