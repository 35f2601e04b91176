//! The same cluster in another input order, and plans without positions.

use planner::{Plan, Snapshot};
use std::sync::Arc;

/// Returns a plan with names in place of positions; the order of a launch's pods does not matter.
pub fn canonical(snapshot: &Snapshot, plan: &Plan) -> String {
    let mut plan = plan.clone();
    for launch in &mut plan.launches {
        launch.pods.sort_by_key(|pod| &snapshot.pods[*pod].name);
    }
    crate::canonical::canonical(snapshot, &plan)
}

/// Shuffles all lists and adapts positions that refer to them.
pub fn shuffled(snapshot: &Snapshot, by: u64) -> Snapshot {
    let mut other = snapshot.clone();
    let mut random = by;
    mixed(&mut other.pods, &mut random);
    mixed(&mut other.nodes, &mut random);
    mixed(&mut other.pools, &mut random);
    mixed(&mut other.daemons, &mut random);
    mixed(&mut Arc::make_mut(&mut other.catalogues[0]).types, &mut random);
    for node in &mut other.nodes {
        mixed(&mut Arc::make_mut(node).pods, &mut random);
    }
    let mut places: Vec<usize> = (0..snapshot.shapes.len()).collect();
    mixed(&mut places, &mut random);
    other.shapes = places.iter().map(|old| Arc::clone(&snapshot.shapes[*old])).collect();
    for pod in &mut other.pods {
        pod.shape = places.iter().position(|old| *old == pod.shape).unwrap();
    }
    other
}

/// Shuffles a list; one number determines the result.
fn mixed<T>(list: &mut [T], random: &mut u64) {
    for end in (1..list.len()).rev() {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let other = usize::try_from(*random >> 33).unwrap() % (end + 1);
        list.swap(end, other);
    }
}
