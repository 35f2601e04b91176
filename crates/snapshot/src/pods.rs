//! Pods: their shapes, records of all pods, and the selection of pods that need a node.

pub(crate) mod admission;
pub(crate) mod annotations;
pub(crate) mod capacity_splits;
pub(crate) mod daemons;
pub(crate) mod idle_budgets;
pub(crate) mod ignored;
pub(crate) mod pauses;
pub(crate) mod records;
pub(crate) mod selection;
pub(crate) mod shapes;
pub(crate) mod terms;
pub(crate) mod volumes;

use api::label;
use api::objects::{Pod, Surged};

/// Returns the UID, or an empty text.
pub(crate) fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

/// Returns `namespace/name`.
pub(crate) fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace(), pod.name())
}

/// Returns `Kind namespace/name` of a pod's workload. The workload is the pod's controller, or the Deployment of a ReplicaSet,
/// so that a rollout is part of it. A pod without a controller is its own workload.
pub(crate) fn workload(pod: &Pod) -> String {
    let Some(owner) = pod.controller() else { return format!("Pod {}", full_name(pod)) };
    let hash = pod.metadata.labels.as_ref().and_then(|labels| labels.get(label::POD_TEMPLATE_HASH));
    let deployment = hash.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
    match deployment.filter(|_| pod.replica_set().is_some()) {
        Some(name) => format!("Deployment {}/{name}", pod.namespace()),
        None => format!("{} {}/{}", owner.kind, pod.namespace(), owner.name),
    }
}

/// Reports whether the pod needs another node when its node is removed. Live pods do, and terminating pods of a StatefulSet,
/// which are created again under the same name. A pod with a surge copy does not, because the copy is a pod itself.
pub(crate) fn is_reschedulable(pod: &Pod) -> bool {
    let is_live = !pod.is_terminal() && (!pod.is_terminating() || pod.is_stateful());
    is_live && !pod.is_daemon() && !pod.is_static() && Surged::from_pod(pod).is_none()
}
