//! Pods without a node by UID, without a copy of the UID.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use api::objects::Pod;

/// Pods that wait for the same step, by UID.
#[derive(Debug, Default)]
pub(super) struct PendingPods(BTreeSet<ByUid>);

impl PendingPods {
    /// Returns the pod with this UID.
    pub(super) fn get(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.0.get(uid).map(|ByUid(pod)| pod)
    }

    /// Returns all pods in the order of their UIDs.
    pub(super) fn values(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.0.iter().map(|ByUid(pod)| pod)
    }

    /// Reports whether no pod waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes in a change of one pod. `waits` reports whether a pod belongs to the set.
    pub(super) fn update(&mut self, before: Option<&Pod>, after: Option<&Arc<Pod>>, waits: fn(&Pod) -> bool) {
        if let Some(gone) = before.filter(|pod| waits(pod)) {
            self.0.remove(uid(gone));
        }
        if let Some(pod) = after.filter(|pod| waits(pod)) {
            self.0.replace(ByUid(Arc::clone(pod)));
        }
    }
}

/// Pod with the order of its UID.
#[derive(Debug)]
struct ByUid(Arc<Pod>);

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

impl Borrow<str> for ByUid {
    fn borrow(&self) -> &str {
        uid(&self.0)
    }
}

impl Ord for ByUid {
    fn cmp(&self, other: &Self) -> Ordering {
        uid(&self.0).cmp(uid(&other.0))
    }
}

impl PartialOrd for ByUid {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByUid {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByUid {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::objects::Pod;
    use serde_json::json;

    use crate::fixture::{at, pod};
    use crate::state::index::Index;

    #[test]
    fn waiting_pod_returns_the_copy_of_the_table() {
        let refused = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        let mut index = Index::default();
        // The second one is a relist.
        for (version, live, conditions) in [("5", true, json!([])), ("5", false, json!([])), ("6", true, refused)] {
            let change = json!({
                "metadata": {"resourceVersion": version}, "spec": {"nodeName": null}, "status": {"conditions": conditions},
            });
            drop(index.apply::<Pod>(Pod::clone(&pod(&change)), at(0), live));
            let stored = index.pods.get("default/web").unwrap();
            assert!(Arc::ptr_eq(index.waiting_pod("pod-uid").unwrap(), stored), "{version} {live}");
            assert_eq!(index.has_waiting_pods(), version == "6");
            assert_eq!(index.pending_pods().count(), 1);
        }
        drop(index.delete::<Pod>("default/web", at(1)));
        assert!(index.waiting_pod("pod-uid").is_none());
    }
}
