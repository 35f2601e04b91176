//! Pods of each ReplicaSet of a Deployment on nodes, to find pods that are the only one.

use std::collections::{BTreeMap, BTreeSet};

use api::objects::Pod;

/// Pods by the UID of their ReplicaSet.
#[derive(Debug, Default)]
pub(super) struct ReplicaSetPods(BTreeMap<String, BTreeSet<u32>>);

impl ReplicaSetPods {
    /// Counts a pod. Returns the pod that was the only one until now.
    pub(super) fn add(&mut self, id: u32, pod: &Pod) -> Option<u32> {
        let members = self.0.entry(owner(pod)?.to_owned()).or_default();
        let before = only(members);
        members.insert(id);
        before
    }

    /// Removes a pod. Returns the pod that is the only one now.
    pub(super) fn remove(&mut self, id: u32, pod: &Pod) -> Option<u32> {
        let owner = owner(pod)?;
        let members = self.0.get_mut(owner)?;
        members.remove(&id);
        let left = only(members);
        if members.is_empty() {
            self.0.remove(owner);
        }
        left
    }

    /// Reports whether the pod is the only one of its ReplicaSet.
    pub(super) fn is_only_replica(&self, pod: &Pod) -> bool {
        owner(pod).and_then(|owner| self.0.get(owner)).is_some_and(|members| members.len() == 1)
    }
}

fn owner(pod: &Pod) -> Option<&str> {
    let counts = pod.is_bound() && !pod.is_terminal() && !pod.is_terminating();
    pod.replica_set().filter(|_| counts).map(|owner| owner.uid.as_str())
}

fn only(members: &BTreeSet<u32>) -> Option<u32> {
    members.first().copied().filter(|_| members.len() == 1)
}
