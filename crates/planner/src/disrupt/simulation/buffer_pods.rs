//! Virtual pods of CapacityBuffers and ProvisioningRequests during disruption. A buffer keeps capacity, but no particular node: it
//! protects its nodes from emptiness only. Disruption therefore treats a virtual pod with a place on a node like a pod that runs
//! there and needs another place. A replacement is thus large enough for the buffer, and no node is removed to be launched again
//! for it. The pods of a ProvisioningRequest come within minutes, so its nodes stay.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{BoundPod, Plan, Pod, PodVerdict, Size, Snapshot, Stage};

/// Returns the snapshot and the plan with virtual pods bound to the nodes that the plan assigns to them; `None` if there are no
/// such pods. Virtual pods on nodes that are not initialized or not managed remain pending.
pub(in crate::disrupt) fn bound(snapshot: &Snapshot, plan: &Plan) -> Option<(Snapshot, Plan)> {
    let nodes = snapshot.nodes.iter().enumerate();
    let nodes = nodes.filter(|(_, node)| node.claim.is_some() && node.stage == Stage::Initialized);
    let positions: BTreeMap<&str, usize> = nodes.map(|(position, node)| (node.name.as_str(), position)).collect();
    let place = |(pod, verdict): (usize, &PodVerdict)| match verdict {
        PodVerdict::Existing { node, .. } if snapshot.pods[pod].holder.is_some() => {
            Some((pod, *positions.get(node.as_str())?))
        }
        _ => None,
    };
    let places: BTreeMap<usize, usize> = plan.report.pods.iter().enumerate().filter_map(place).collect();
    if places.is_empty() {
        return None;
    }
    let (mut with, mut without) = (snapshot.clone(), plan.clone());
    for (pod, position) in &places {
        let node = Arc::make_mut(&mut with.nodes[*position]);
        let pod = virtual_pod(snapshot, &snapshot.pods[*pod]);
        node.used.add(&pod.shape.requests);
        node.pods.push(pod);
    }
    places.keys().for_each(|pod| without.report.pods[*pod] = PodVerdict::Postponed);
    without.report.order.retain(|pod| !places.contains_key(pod));
    Some((with, without))
}

/// Returns the pod as if it ran on its node: it uses nothing, and its eviction costs nothing.
fn virtual_pod(snapshot: &Snapshot, pod: &Pod) -> BoundPod {
    BoundPod {
        uid: pod.uid.clone(),
        name: pod.name.clone(),
        reschedulable: true,
        cost: 0,
        shape: Arc::clone(&snapshot.shapes[pod.shape]),
        claims: pod.claims.clone(),
        used: Some(Size::default()),
        holder: pod.holder.clone(),
        ..BoundPod::default()
    }
}
