//! Workloads that are split over on-demand and spot, as their pods say.

use std::sync::Arc;

use api::objects::Pod;
use api::{InvalidMix, MixSaid};
use planner::CapacitySplit;

use crate::rescheduling::{full_name, uid};

/// What a pod says of its workload's split, if it asks for one, and what of it cannot be read. The workload is that of the
/// pod's controller (a Deployment's ReplicaSet: each revision keeps its own promise); a pod without one is its own.
pub(crate) fn of_pod(pod: &Pod) -> (Option<Arc<CapacitySplit>>, Vec<InvalidMix>) {
    if pod.is_terminal() || pod.is_daemon() || pod.is_static() {
        return (None, Vec::new());
    }
    let said = MixSaid::from_pod(&pod.metadata);
    let mix = || {
        let (workload, owner) = match pod.controller() {
            Some(owner) => (format!("{} {}/{}", owner.kind, pod.namespace(), owner.name), owner.uid.clone()),
            None => (format!("Pod {}", full_name(pod)), uid(pod)),
        };
        Arc::new(CapacitySplit { workload, owner, on_demand_base: said.on_demand_base, spot_share: said.spot_share })
    };
    (said.asks().then(mix), said.faults)
}
