//! Model of a drain: pods of a leaving node are evicted as soon as their PodDisruptionBudgets allow it.

use api::objects::Pod;
use api::{Taint, taint};
use jiff::Timestamp;

use crate::cluster::Cluster;

/// State of the drain of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drain {
    /// True if its time is over, so that nothing delays it.
    pub(crate) is_forced: bool,
}

/// Returns the UID of the first pod on a node that can be evicted now.
pub(crate) fn evictable(cluster: &mut Cluster, node: &str, drain: Drain) -> Option<String> {
    let now = cluster.now;
    let waiting: Vec<String> = cluster.pods_on(node).into_iter().filter(|uid| waits(cluster, uid)).collect();
    let stays = |pod: &Pod, now: Timestamp| pod.is_do_not_disrupt(now) && !drain.is_forced;
    waiting.into_iter().find(|uid| {
        let stays = cluster.pod(uid).is_none_or(|pod| stays(pod, now));
        !stays && (drain.is_forced || cluster.allows_eviction(uid))
    })
}

/// Reports whether a pod must be evicted, and its eviction has not begun.
fn waits(cluster: &Cluster, uid: &str) -> bool {
    cluster.pod(uid).is_some_and(|pod| must_leave(pod) && !pod.is_terminating())
}

/// Reports whether all pods have left a node that have to.
pub(crate) fn is_over(cluster: &Cluster, node: &str) -> bool {
    !cluster.pods_on(node).iter().filter_map(|uid| cluster.pod(uid)).any(|pod| must_leave(pod))
}

/// Reports whether a drain waits for the pod. Pods of the node, and pods that tolerate the taint of a disruption, end with the node.
fn must_leave(pod: &Pod) -> bool {
    let disrupted = Taint::new(taint::DISRUPTED, taint::NO_SCHEDULE);
    let ends_with_node = pod.is_daemon() || pod.is_static();
    !ends_with_node && !pod.is_terminal() && !pod.spec.tolerations.iter().any(|own| own.tolerates(&disrupted))
}
