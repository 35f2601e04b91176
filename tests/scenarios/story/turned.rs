//! The same cluster in other orders, which must make no difference.

use planner::Snapshot;

/// The same cluster, listed backwards.
pub fn reversed(snapshot: &Snapshot) -> Snapshot {
    let mut turned = snapshot.clone();
    turned.pods.reverse();
    turned.nodes.reverse();
    turned.pools.reverse();
    turned.daemons.reverse();
    turned
}

/// The same cluster, listed from the middle on, with its shapes and catalogues backwards.
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

/// The same cluster, every other one first.
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
