//! Clusters that are small enough to try every way.

use std::sync::Arc;

use planner::Requirement;
use proptest::prelude::Strategy;

use super::constrained::constrained;
use crate::clusters::{ARCH, CPUS, Cluster};

/// Returns clusters that are small enough to try every way. A DaemonSet pod in only some zones of a type counts for all of
/// them, so such DaemonSets are removed.
pub fn tiny() -> impl Strategy<Value = Cluster> {
    constrained().prop_map(|Cluster(mut snapshot)| {
        snapshot.pods.retain(|pod| pod.leaving_node.is_some() || pod.holder.is_some() || pod.name.as_str() < "pod-05");
        snapshot.pods.truncate(6);
        snapshot.nodes.truncate(3);
        Arc::make_mut(&mut snapshot.catalogues[0]).types.truncate(4);
        let types = Arc::clone(&snapshot.catalogues[0]);
        let known = |name: &String| types.types.iter().any(|kind| kind.name == *name);
        snapshot.nodes.retain(|node| node.instance_type.as_ref().is_none_or(known));
        let there: Vec<String> = snapshot.nodes.iter().map(|node| node.name.clone()).collect();
        snapshot.pods.retain(|pod| pod.leaving_node.as_ref().is_none_or(|node| there.contains(node)));
        let by_type = |it: &Requirement| [ARCH, CPUS].contains(&it.key.as_str());
        snapshot.daemons.retain(|daemon| daemon.shape.affinity.iter().flatten().all(by_type));
        snapshot.policy.least_spot_types = 0;
        snapshot.policy.max_instance_types = 600;
        Cluster(snapshot)
    })
}
