//! Kubelets: they start, end and resize the pods of their nodes. Some nodes cannot resize running pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::condition;
use api::objects::{Node, Pod, ResourceList};
use api::quantity::{self, CPU, MEMORY};
use jiff::{SignedDuration, Timestamp};
use planner::Size;
use serde_json::{Map, Value, json};

use super::machines::Machines;
use super::owners::Owners;
use super::{Place, key};
use crate::api_server::{NODES, PODS, merge, text};

/// Time from new requests to kubelet's response, and between two attempts for deferred requests.
const ANSWERS: SignedDuration = SignedDuration::from_secs(2);

/// Resource of the device plugin for NVIDIA GPUs.
pub const GPU: &str = "nvidia.com/gpu";

/// Events of pods that are due, by `namespace/name`.
#[derive(Default)]
pub(super) struct Kubelets {
    starts: BTreeMap<String, Timestamp>,
    completes: BTreeMap<String, Timestamp>,
    /// First sight of the deletion, and the end.
    ends: BTreeMap<String, (Timestamp, Timestamp)>,
    resizes: BTreeMap<String, Timestamp>,
    /// Highest version of a pod that was compared with its resources.
    compared: u64,
    /// Requests for which each pod was sized last.
    answered: BTreeMap<String, Size>,
}

impl Kubelets {
    /// Returns the time of the next event.
    pub(super) fn next(&self) -> Option<Timestamp> {
        let ends = self.ends.values().map(|(_, end)| end);
        let all = self.starts.values().chain(self.completes.values()).chain(self.resizes.values()).chain(ends);
        all.min().copied()
    }

    /// Removes pods that have stopped or completed, and pods of deleted Nodes.
    pub(super) fn end_pods(&mut self, place: &Place<'_>, owners: &mut Owners) {
        let pods = place.server.shared::<Pod>(PODS);
        let nodes = place.server.shared::<Node>(NODES);
        let nodes: BTreeSet<&str> = nodes.iter().map(|node| node.name()).collect();
        for pod in &pods {
            let orphan = pod.is_bound() && !nodes.contains(pod.spec.node_name.as_str());
            let over = self.end_of(pod, place.now, owners).is_some_and(|end| end <= place.now);
            let completes = owners.lasts(pod).and_then(|_| self.completes.get(&key(pod)));
            let completed = completes.is_some_and(|at| *at <= place.now);
            if completed && !over && !orphan {
                owners.completed(pod);
            }
            if over || orphan || completed {
                self.forget(&key(pod));
                place.server.remove(PODS, &key(pod));
            }
        }
    }

    /// Returns the time at which a terminating pod ends.
    fn end_of(&mut self, pod: &Pod, now: Timestamp, owners: &Owners) -> Option<Timestamp> {
        let latest = pod.metadata.deletion_timestamp.as_ref()?.0;
        let stops = if is_running(pod) { owners.stops(pod) } else { Some(SignedDuration::ZERO) };
        let stops = owners.stops(pod).and(stops);
        let (seen, end) = self.ends.entry(key(pod)).or_insert((now, latest));
        *end = stops.map_or(latest, |stops| (*seen + stops).min(latest));
        Some(*end)
    }

    fn forget(&mut self, pod: &str) {
        self.ends.remove(pod);
        self.starts.remove(pod);
        self.completes.remove(pod);
        self.resizes.remove(pod);
        self.answered.remove(pod);
    }

    /// Sets bound pods to Running after their start time.
    pub(super) fn start_pods(&mut self, place: &Place<'_>, owners: &Owners) {
        let pods = place.server.shared::<Pod>(PODS);
        for pod in pods.iter().filter(|pod| pod.is_bound() && !is_running(pod) && !pod.is_terminating()) {
            let at = *self.starts.entry(key(pod)).or_insert_with(|| place.now + owners.starts(pod));
            if at > place.now {
                continue;
            }
            self.starts.remove(&key(pod));
            self.answered.insert(key(pod), requested(pod));
            self.completes.extend(owners.lasts(pod).map(|lasts| (key(pod), place.now + lasts)));
            let now = text(place.now);
            let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
            let mut change = allocation(requested(pod), &[ready]);
            merge(&mut change, &json!({"status": {"phase": "Running", "startTime": now}}));
            place.server.change(PODS, &key(pod), &change);
        }
    }

    /// Answers changed requests: applies them if the node has capacity, and defers them otherwise.
    pub(super) fn resize_pods(&mut self, place: &Place<'_>, machines: &Machines) {
        let pods = place.server.shared::<Pod>(PODS);
        let before = std::mem::replace(&mut self.compared, pods.iter().map(|pod| version(pod)).max().unwrap_or(0));
        let new = pods.iter().filter(|pod| version(pod) > before);
        for pod in new.filter(|pod| is_running(pod) && !pod.is_terminating()) {
            let asks = requested(pod);
            if self.answered.get(&key(pod)).is_some_and(|answered| *answered != asks) {
                self.answered.insert(key(pod), asks);
                self.resizes.insert(key(pod), place.now + ANSWERS);
            }
        }
        for (key, _) in self.resizes.extract_if(.., |_, at| *at <= place.now).collect::<Vec<_>>() {
            if let Some(pod) = place.server.get::<Pod>(PODS, &key) {
                let rigid = machines.is_rigid(&pod.spec.node_name);
                let hindrance = if rigid { Some(INFEASIBLE) } else { hindrance(place, &pod, &pods) };
                self.answer(place, &pod, hindrance);
            }
        }
    }

    fn answer(&mut self, place: &Place<'_>, pod: &Pod, hindrance: Option<&str>) {
        let kept = if hindrance.is_none() { requested(pod) } else { takes(pod, allocated) };
        place.server.change(PODS, &key(pod), &allocation(kept, &conditions(pod, hindrance, place.now)));
        if hindrance == Some(DEFERRED) {
            self.resizes.insert(key(pod), place.now + ANSWERS);
        }
    }
}

const DEFERRED: &str = "Deferred";
const INFEASIBLE: &str = "Infeasible";

/// Returns why a pod does not get its current requests.
fn hindrance(place: &Place<'_>, pod: &Pod, pods: &[Arc<Pod>]) -> Option<&'static str> {
    let node = place.server.get::<Node>(NODES, &pod.spec.node_name)?;
    let others = pods.iter().filter(|it| it.spec.node_name == pod.spec.node_name && it.name() != pod.name());
    let all = others.fold(requested(pod), |all, other| all.plus(takes(other, allocated)));
    (!all.is_within(size(&node.status.allocatable))).then_some(DEFERRED)
}

/// Returns the version of a pod, which grows with every change of any object.
fn version(pod: &Pod) -> u64 {
    pod.metadata.resource_version.as_ref().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Reports whether the containers of a pod run.
fn is_running(pod: &Pod) -> bool {
    pod.status.phase == "Running"
}

fn takes(pod: &Pod, of: impl Fn(&Pod) -> Option<Size>) -> Size {
    of(pod).unwrap_or_else(|| requested(pod))
}

fn conditions(pod: &Pod, pending: Option<&str>, now: Timestamp) -> Vec<Value> {
    let mut all: Vec<Value> = pod.status.conditions.iter().map(|it| json!(it)).collect();
    all.retain(|it| it["type"] != condition::POD_RESIZE_PENDING);
    all.extend(pending.map(|reason| {
        json!({
            "type": condition::POD_RESIZE_PENDING, "status": "True", "reason": reason, "lastTransitionTime": text(now),
        })
    }));
    all
}

fn allocation(kept: Size, conditions: &[Value]) -> Value {
    let amounts = [(CPU, kept.cpu), (MEMORY, kept.memory)].into_iter().filter(|(_, amount)| *amount > 0);
    let kept: Map<String, Value> =
        amounts.map(|(name, amount)| (name.to_owned(), json!(quantity::text(name, amount)))).collect();
    json!({"status": {"conditions": conditions, "containerStatuses": [{"name": "main", "allocatedResources": kept}]}})
}

/// Returns the requests of a pod.
#[must_use]
pub fn requested(pod: &Pod) -> Size {
    pod.spec.containers.iter().fold(Size::default(), |sum, it| sum.plus(size(&it.resources.requests)))
}

/// Returns the number of GPUs that a pod requests. Their number cannot be changed while the pod runs.
#[must_use]
pub fn gpus(pod: &Pod) -> i64 {
    pod.spec.containers.iter().map(|it| amount(&it.resources.requests, GPU)).sum()
}

/// Returns the amounts that kubelet has allocated to a pod, once kubelet has reported them.
#[must_use]
pub fn allocated(pod: &Pod) -> Option<Size> {
    let all = &pod.status.container_statuses;
    let known = all.iter().any(|it| !it.allocated_resources.is_empty());
    known.then(|| all.iter().fold(Size::default(), |sum, it| sum.plus(size(&it.allocated_resources))))
}

pub(super) fn size(list: &ResourceList) -> Size {
    Size { cpu: amount(list, CPU), memory: amount(list, MEMORY) }
}

pub(super) fn amount(list: &ResourceList, name: &str) -> i64 {
    list.get(name).map_or(0, |it| it.amount(name).unwrap())
}
