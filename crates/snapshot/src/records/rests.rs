//! Until when workloads rest that ask to be disturbed but once in a while: for so long from the start of the youngest of their pods.
//!
//! Whoever was moved starts anew, so the youngest start is when the workload was disturbed last. It is also when it was rolled out or has
//! grown: then it changes by itself, and is left alone too. So nothing has to be remembered, and the promise holds whatever has happened.

use std::collections::{BTreeMap, BTreeSet};

use api::label;
use api::objects::Pod;
use jiff::Timestamp;
use planner::Millis;

use crate::millis;
use crate::rescheduling::full_name;

/// Ends of rest by workload, one of each of its pods that asks for it.
#[derive(Debug, Default)]
pub(super) struct Rests(BTreeMap<String, BTreeSet<(Timestamp, u32)>>);

impl Rests {
    pub(super) fn add(&mut self, id: u32, pod: &Pod) {
        if let Some((workload, until)) = asked(pod) {
            self.0.entry(workload).or_default().insert((until, id));
        }
    }

    pub(super) fn remove(&mut self, id: u32, pod: &Pod) {
        let Some((workload, until)) = asked(pod) else { return };
        let Some(ends) = self.0.get_mut(&workload) else { return };
        ends.remove(&(until, id));
        if ends.is_empty() {
            self.0.remove(&workload);
        }
    }

    /// The last end of each workload.
    pub(super) fn all(&self) -> BTreeMap<String, Millis> {
        let last =
            |(workload, ends): (&String, &BTreeSet<(Timestamp, u32)>)| Some((workload.clone(), millis(ends.last()?.0)));
        self.0.iter().filter_map(last).collect()
    }
}

/// The workload of a pod that lives and asks for rest, and until when it would have it by itself.
fn asked(pod: &Pod) -> Option<(String, Timestamp)> {
    let until = pod.rests_until().ok().flatten().filter(|_| !pod.is_terminal() && !pod.is_terminating())?;
    Some((workload(pod), until))
}

/// `Kind namespace/name` of a pod's workload: its controller, for a ReplicaSet of a Deployment that Deployment, so that a rollout is part
/// of it; a pod without one is its own.
pub(crate) fn workload(pod: &Pod) -> String {
    let Some(owner) = pod.controller() else { return format!("Pod {}", full_name(pod)) };
    let hash = pod.metadata.labels.as_ref().and_then(|labels| labels.get(label::POD_TEMPLATE_HASH));
    let deployment = hash.and_then(|hash| owner.name.strip_suffix(hash.as_str())?.strip_suffix('-'));
    match deployment.filter(|_| pod.replica_set().is_some()) {
        Some(name) => format!("Deployment {}/{name}", pod.namespace()),
        None => format!("{} {}/{}", owner.kind, pod.namespace(), owner.name),
    }
}
