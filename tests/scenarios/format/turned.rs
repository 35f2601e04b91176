//! Permutations of a cluster, which must not change the plan.

use planner::Snapshot;

/// Returns the cluster with reversed lists.
pub fn reversed(snapshot: &Snapshot) -> Snapshot {
    let mut turned = snapshot.clone();
    turned.pods.reverse();
    turned.nodes.reverse();
    turned.pools.reverse();
    turned.daemons.reverse();
    turned
}

/// Returns the cluster with lists that begin in the middle, and with reversed shapes and catalogues.
pub fn rotated(snapshot: &Snapshot) -> Snapshot {
    let mut turned = snapshot.clone();
    turned.pods.rotate_left(snapshot.pods.len() / 2);
    turned.nodes.rotate_left(snapshot.nodes.len() / 2);
    turned.shapes.reverse();
    for pod in &mut turned.pods {
        pod.shape = turned.shapes.len() - 1 - pod.shape;
    }
    turned.catalogues.reverse();
    for pool in &mut turned.pools {
        pool.catalogue = turned.catalogues.len() - 1 - pool.catalogue;
    }
    turned
}

/// Returns the cluster with every second object first.
pub fn combed(snapshot: &Snapshot) -> Snapshot {
    let mut turned = snapshot.clone();
    turned.pods = comb(&snapshot.pods);
    turned.nodes = comb(&snapshot.nodes);
    turned.pools = comb(&snapshot.pools);
    turned.daemons = comb(&snapshot.daemons);
    turned
}

fn comb<T: Clone>(list: &[T]) -> Vec<T> {
    list.iter().skip(1).step_by(2).chain(list.iter().step_by(2)).cloned().collect()
}
