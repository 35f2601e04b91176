//! ReplicaSets and Jobs, which create and delete pods until each workload has its replicas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::Pod;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{GPU, Place, Workload, app_of, key};
use crate::api_server::{PODS, merge};

/// Workloads by name, which is the label `app` of their pods.
#[derive(Default)]
pub(super) struct Owners {
    workloads: BTreeMap<String, Workload>,
    made: u64,
}

impl Owners {
    pub(super) fn want(&mut self, app: &str, workload: Workload) {
        self.workloads.insert(app.to_owned(), workload);
    }

    pub(super) fn scale(&mut self, app: &str, replicas: usize) {
        self.workloads.entry(app.to_owned()).and_modify(|it| it.replicas = replicas);
    }

    pub(super) fn wanted(&self, app: &str) -> usize {
        self.workloads.get(app).map_or(0, |it| it.replicas)
    }

    pub(super) fn starts(&self, pod: &Pod) -> SignedDuration {
        self.workloads.get(app_of(pod)).map_or(SignedDuration::ZERO, |it| it.starts)
    }

    pub(super) fn stops(&self, pod: &Pod) -> Option<SignedDuration> {
        self.workloads.get(app_of(pod))?.stops
    }

    pub(super) fn lasts(&self, pod: &Pod) -> Option<SignedDuration> {
        self.workloads.get(app_of(pod))?.lasts
    }

    /// Counts a completed pod of a Job.
    pub(super) fn completed(&mut self, pod: &Pod) {
        self.workloads.entry(app_of(pod).to_owned()).and_modify(|it| it.replicas = it.replicas.saturating_sub(1));
    }

    /// Creates missing pods, and deletes pods in excess: those that are not ready first, then the youngest. Terminating pods
    /// do not count.
    pub(super) fn run(&mut self, place: &Place<'_>) {
        let pods = place.server.shared::<Pod>(PODS);
        let mut active: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| !pod.is_terminating()) {
            active.entry(app_of(pod)).or_default().push(pod);
        }
        for (app, workload) in &self.workloads {
            let mut own = active.remove(app.as_str()).unwrap_or_default();
            let taken: BTreeSet<usize> = own.iter().filter_map(|pod| ordinal(pod)).collect();
            let free = (0..).filter(|ordinal| !taken.contains(ordinal));
            for ordinal in free.take(workload.replicas.saturating_sub(own.len())) {
                self.made += 1;
                place.server.create(PODS, made(app, workload, ordinal, self.made));
            }
            own.sort_by_key(|pod| (pod.is_ready(), std::cmp::Reverse(pod.metadata.uid.clone())));
            let excess = own.len().saturating_sub(workload.replicas);
            own.iter().take(excess).for_each(|pod| place.server.delete(PODS, &key(pod)));
        }
    }
}

/// Returns the number of a pod in its workload. The replacement of a pod takes over the number.
pub fn ordinal(pod: &Pod) -> Option<usize> {
    pod.name().rsplit('-').nth(1)?.parse().ok()
}

/// Returns a pod. The first ten digits of its UID are unique, as usage reports require.
fn made(app: &str, workload: &Workload, ordinal: usize, number: u64) -> Value {
    let mut requests = json!({"cpu": format!("{}m", workload.cpu)});
    if workload.memory > 0 {
        requests["memory"] = json!(workload.memory.to_string());
    }
    if workload.gpus > 0 {
        requests[GPU] = json!(workload.gpus.to_string());
    }
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{app}-{ordinal}-{number:06}"), "uid": format!("{number:010x}"), "namespace": "default",
            "labels": {"app": app},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": format!("owner-{app}"), "controller": true,
            }],
        },
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        },
        "status": {"phase": "Pending"},
    });
    merge(&mut pod, &workload.template);
    pod
}
