//! Splits of workloads over on-demand and spot, from the annotations of their pods.

use std::sync::Arc;

use api::objects::Pod;
use api::{InvalidSplit, RequestedSplit};
use planner::CapacitySplit;

use super::{full_name, uid};

/// Returns the split of a pod's workload, if the pod requests one, and the invalid parts of its annotations.
///
/// The workload is the pod's controller. For a Deployment this is the ReplicaSet, so each revision has its own split. A pod
/// without controller is its own workload.
pub(crate) fn split_of_pod(pod: &Pod) -> (Option<Arc<CapacitySplit>>, Vec<InvalidSplit>) {
    if pod.is_terminal() || pod.is_daemon() || pod.is_static() {
        return (None, Vec::new());
    }
    let request = RequestedSplit::from_pod(&pod.metadata);
    let mix = || {
        let (workload, owner) = match pod.controller() {
            Some(owner) => (format!("{} {}/{}", owner.kind, pod.namespace(), owner.name), owner.uid.clone()),
            None => (format!("Pod {}", full_name(pod)), uid(pod)),
        };
        Arc::new(CapacitySplit {
            workload,
            owner,
            on_demand_base: request.on_demand_base,
            spot_share: request.spot_share,
        })
    };
    (request.is_present().then(mix), request.faults)
}
