//! Small model of kube-scheduler: binds pods to open nodes with free capacity, the least allocated node first. The model has the
//! constraints of the pods here: node selector, no two pods of a workload on a node, even spread over zones.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::label;
use api::objects::{Node, Pod};
use planner::Size;
use serde_json::json;

use super::kubelet::{GPU, allocated, amount, gpus, requested, size};
use super::{Place, app_of, key};
use crate::api_server::{NODES, PODS, text};

/// Node for pods.
struct Candidate<'a> {
    node: &'a Node,
    allocatable: Size,
    most_pods: i64,
    used: Size,
    /// GPUs that no bound pod has, and that no nominated pod waits for.
    free_gpus: i64,
    pods: i64,
    /// Requests of the pending pods that are nominated for this node; `awaits` counts those pods by workload.
    awaited: Size,
    awaits: BTreeMap<&'a str, i64>,
    /// Number of bound pods by workload.
    apps: BTreeMap<&'a str, usize>,
    /// Nodes that are not open count for topology spread and accept no pods.
    open: bool,
}

/// Binds all pods that fit; the other pods remain pending.
pub(super) fn bind(place: &Place<'_>) {
    let pods = place.server.shared::<Pod>(PODS);
    let mut waiting: Vec<&Arc<Pod>> = pods.iter().filter(|pod| !pod.is_bound() && !pod.is_terminating()).collect();
    if waiting.is_empty() {
        return;
    }
    waiting.sort_by_key(|pod| &pod.metadata.uid);
    let nodes = place.server.shared::<Node>(NODES);
    let mut candidates = candidates(&nodes, &pods);
    for pod in waiting {
        let nominated = &pod.status.nominated_node_name;
        let expected = candidates.iter().position(|candidate| candidate.open && candidate.node.name() == nominated);
        // kube-scheduler uses a nomination for one attempt, successful or not.
        if let Some(position) = expected {
            candidates[position].awaits_no_more(pod);
        }
        let found = choose(&candidates, pod, expected);
        if let Some(position) = found {
            candidates[position].hold(pod);
        }
        write(place, pod, found.map(|position| candidates[position].node.name()), expected.is_some());
    }
}

/// Writes the result of an attempt.
fn write(place: &Place<'_>, pod: &Pod, node: Option<&str>, attempted: bool) {
    let now = text(place.now);
    let mut change = json!({});
    if let Some(node) = node {
        let bound = json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": now});
        change = json!({"spec": {"nodeName": node}, "status": {"conditions": [bound]}});
    } else if !pod.is_unschedulable() {
        let refused = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": now,
        });
        change = json!({"status": {"conditions": [refused]}});
    }
    if attempted {
        change["status"]["nominatedNodeName"] = json!(null);
    }
    if change != json!({}) {
        place.server.change(PODS, &key(pod), &change);
    }
}

fn candidates<'a>(nodes: &'a [Arc<Node>], pods: &'a [Arc<Pod>]) -> Vec<Candidate<'a>> {
    let mut candidates: Vec<Candidate<'a>> = nodes.iter().map(|node| Candidate::new(node)).collect();
    let known: BTreeMap<&str, usize> =
        nodes.iter().enumerate().map(|(position, node)| (node.name(), position)).collect();
    for pod in pods {
        let nominated = !pod.is_bound() && !pod.is_terminating();
        if let Some(position) = known.get(pod.spec.node_name.as_str()) {
            candidates[*position].hold(pod);
        } else if let Some(position) = known.get(pod.status.nominated_node_name.as_str()).filter(|_| nominated) {
            candidates[*position].await_one(pod);
        }
    }
    candidates
}

impl<'a> Candidate<'a> {
    fn new(node: &'a Node) -> Self {
        let all = &node.status.allocatable;
        Self {
            node,
            allocatable: size(all),
            most_pods: amount(all, "pods"),
            used: Size::default(),
            free_gpus: amount(all, GPU),
            pods: 0,
            awaited: Size::default(),
            awaits: BTreeMap::new(),
            apps: BTreeMap::new(),
            open: is_open(node),
        }
    }

    fn hold(&mut self, pod: &'a Pod) {
        self.used = self.used.plus(requested(pod).max(allocated(pod).unwrap_or_default()));
        self.free_gpus -= gpus(pod);
        self.pods += 1;
        if !pod.is_terminating() {
            *self.apps.entry(app_of(pod)).or_default() += 1;
        }
    }

    fn await_one(&mut self, pod: &'a Pod) {
        self.awaited = self.awaited.plus(requested(pod));
        self.free_gpus -= gpus(pod);
        *self.awaits.entry(app_of(pod)).or_default() += 1;
    }

    fn awaits_no_more(&mut self, pod: &Pod) {
        self.awaited = self.awaited.minus(requested(pod));
        self.free_gpus += gpus(pod);
        if let Some(count) = self.awaits.get_mut(app_of(pod)) {
            *count -= 1;
        }
        self.awaits.retain(|_, count| *count > 0);
    }

    fn fits(&self, pod: &Pod) -> bool {
        let awaited: i64 = self.awaits.values().sum();
        let candidate = self.used.plus(self.awaited).plus(requested(pod)).is_within(self.allocatable);
        let shared = self.apps.contains_key(app_of(pod)) || self.awaits.contains_key(app_of(pod));
        self.open
            && candidate
            && (gpus(pod) == 0 || gpus(pod) <= self.free_gpus)
            && self.pods + awaited < self.most_pods
            && suits(pod, self.node)
            && !(is_apart(pod) && shared)
    }

    /// Returns the used shares of CPU and memory together, in thousandths. kube-scheduler prefers the lowest value.
    fn fullness(&self) -> i64 {
        let share = |used: i64, all: i64| used.saturating_mul(1000) / all.max(1);
        share(self.used.cpu, self.allocatable.cpu) + share(self.used.memory, self.allocatable.memory)
    }

    fn zone(&self) -> Option<&'a str> {
        self.node.label(label::ZONE)
    }
}

fn is_open(node: &Node) -> bool {
    node.is_ready()
        && !node.spec.unschedulable
        && node.spec.taints.iter().all(|taint| taint.effect == "PreferNoSchedule")
}

fn suits(pod: &Pod, node: &Node) -> bool {
    pod.spec.node_selector.iter().all(|(key, value)| node.label(key) == Some(value))
}

/// Reports whether no two pods of the workload may share a node.
fn is_apart(pod: &Pod) -> bool {
    pod.spec.affinity.as_ref().is_some_and(|it| it.pod_anti_affinity.is_some())
}

/// Returns the nominated node if the pod fits, else the least allocated node with sufficient capacity, then by name.
fn choose(candidates: &[Candidate<'_>], pod: &Pod, expected: Option<usize>) -> Option<usize> {
    let zones = (!pod.spec.topology_spread_constraints.is_empty()).then(|| zones(candidates, pod));
    let least = zones.as_ref().and_then(|zones| zones.values().min().copied()).unwrap_or(0);
    let even = |candidate: &Candidate<'_>| {
        let is_least =
            |zones: &BTreeMap<&str, usize>| candidate.zone().and_then(|zone| zones.get(zone)) == Some(&least);
        zones.as_ref().is_none_or(is_least)
    };
    let fits = |candidate: &Candidate<'_>| candidate.fits(pod) && even(candidate);
    let fitting = candidates.iter().enumerate().filter(|(_, candidate)| fits(candidate));
    let emptiest = || {
        fitting.min_by_key(|(_, candidate)| (candidate.fullness(), candidate.node.name())).map(|(position, _)| position)
    };
    expected.filter(|position| fits(&candidates[*position])).or_else(emptiest)
}

/// Counts a workload's pods in each zone that has eligible nodes. A node without a zone label is in no zone.
fn zones<'a>(candidates: &[Candidate<'a>], pod: &Pod) -> BTreeMap<&'a str, usize> {
    let mut zones: BTreeMap<&str, usize> = BTreeMap::new();
    for candidate in candidates.iter().filter(|candidate| suits(pod, candidate.node)) {
        if let Some(zone) = candidate.zone() {
            *zones.entry(zone).or_default() += candidate.apps.get(app_of(pod)).copied().unwrap_or(0);
        }
    }
    zones
}
