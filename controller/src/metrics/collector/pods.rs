//! Metrics of pods: requests, states, longest waits, and durations of ended waits.

use std::collections::{BTreeMap, BTreeSet};

use api::condition;
use api::label;
use api::objects::{Pod, PodCondition, ResourceList, pod_requests};
use daemon::metric::{Gauge, Metrics, NoLabels};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{Amounts, RESOURCES, add, amounts, since, units};
use crate::metrics::gauge_set::Sample;
use crate::metrics::{self, ByNameNamespace, ByNodePoolPhaseScheduledReady};
use crate::state::index::Index;
use crate::state::pod_decisions::PodDecisions;

/// Maximum number of pods whose wait is reported, per metric.
const REPORTED_PODS: usize = 10;

/// Adds the pod itself, because a node has a limit of pods.
fn with_itself(mut asked: Amounts) -> Amounts {
    asked.insert("pods".to_owned(), 1.0);
    asked
}

pub(super) fn requests(pod: &Pod) -> Amounts {
    let asked = pod_requests(&pod.spec).unwrap_or_default().into_iter();
    let known = asked.filter(|(name, _)| RESOURCES.contains(&name.as_str()));
    with_itself(known.map(|(name, amount)| (name.clone(), units(&name, amount))).collect())
}

pub(super) fn limits(pod: &Pod) -> Amounts {
    let sidecars = pod.spec.init_containers.iter().filter(|container| container.is_sidecar());
    let mut total = Amounts::new();
    for container in pod.spec.containers.iter().chain(sidecars) {
        add(&mut total, &amounts(&container.resources.limits));
    }
    let whole: Option<&ResourceList> = pod.spec.resources.as_ref().map(|resources| &resources.limits);
    total.extend(whole.map(amounts).unwrap_or_default());
    with_itself(total)
}

pub(super) fn samples(index: &Index, decisions: &PodDecisions, now: Timestamp) -> Vec<Sample> {
    let mut states: BTreeMap<ByNodePoolPhaseScheduledReady<'_>, f64> = BTreeMap::new();
    let mut waiting = Waiting::default();
    for pod in index.pods.values() {
        *states.entry(state(index, pod)).or_default() += 1.0;
        if !pod.is_terminal() && !pod.is_terminating() && pod.status.phase != "Running" {
            waiting.add(pod, decisions, now);
        }
    }
    let states = states.iter().map(|(labels, count)| Sample::new(&metrics::PODS, *labels, *count));
    states.chain(waiting.samples()).collect()
}

/// Pods with the longest waits, by the step that they wait for.
#[derive(Default)]
struct Waiting<'a> {
    unbound: Longest<'a>,
    unstarted: Longest<'a>,
    undecided: Longest<'a>,
    placed_unbound: Longest<'a>,
    placed_unstarted: Longest<'a>,
}

impl<'a> Waiting<'a> {
    fn add(&mut self, pod: &'a Pod, decisions: &PodDecisions, now: Timestamp) {
        let (Some(created), Some(uid)) = (&pod.metadata.creation_timestamp, &pod.metadata.uid) else { return };
        let (age, placed) = (since(created.0, now), decisions.placed(uid).map(|moment| since(moment, now)));
        self.unstarted.offer(pod, age);
        placed.into_iter().for_each(|seconds| self.placed_unstarted.offer(pod, seconds));
        if pod.is_bound() {
            return;
        }
        self.unbound.offer(pod, age);
        placed.into_iter().for_each(|seconds| self.placed_unbound.offer(pod, seconds));
        if !decisions.has(uid) {
            self.undecided.offer(pod, age);
        }
    }

    fn samples(self) -> impl Iterator<Item = Sample> {
        let longest_by_metric = [
            (self.unbound, &metrics::UNBOUND),
            (self.unstarted, &metrics::UNSTARTED),
            (self.undecided, &metrics::UNDECIDED),
            (self.placed_unbound, &metrics::PLACED_UNBOUND),
            (self.placed_unstarted, &metrics::PLACED_UNSTARTED),
        ];
        longest_by_metric.into_iter().flat_map(|(longest, metric)| longest.samples(metric))
    }
}

fn state<'a>(index: &'a Index, pod: &'a Pod) -> ByNodePoolPhaseScheduledReady<'a> {
    let node = index.nodes.get(&pod.spec.node_name);
    let pool = node.and_then(|node| node.label(label::NODEPOOL)).unwrap_or_default();
    let word = |is: bool| if is { "true" } else { "false" };
    ByNodePoolPhaseScheduledReady {
        nodepool: pool,
        phase: &pod.status.phase,
        scheduled: word(pod.is_bound()),
        ready: word(pod.is_ready()),
    }
}

/// Pods with the longest waits, by first name among equals.
#[derive(Default)]
struct Longest<'a>(Vec<(f64, &'a Pod)>);

impl<'a> Longest<'a> {
    fn offer(&mut self, pod: &'a Pod, seconds: f64) {
        let before = self.0.partition_point(|(other, _)| *other >= seconds);
        if before < REPORTED_PODS {
            self.0.insert(before, (seconds, pod));
            self.0.truncate(REPORTED_PODS);
        }
    }

    fn samples(self, gauge: &Gauge<ByNameNamespace<'_>>) -> impl Iterator<Item = Sample> {
        let pods = self.0.into_iter();
        pods.map(move |(seconds, pod)| {
            Sample::new(gauge, ByNameNamespace { name: pod.name(), namespace: pod.namespace() }, seconds)
        })
    }
}

/// Durations of pods, measured once each. The times are in the conditions of the pods, so the time of a scrape has no effect.
#[derive(Debug)]
pub struct Waits {
    /// Start of this process. An earlier process measured older pods.
    since: Timestamp,
    measured: Mutex<[BTreeSet<String>; 2]>,
}

impl Waits {
    /// Creates the measurement of pods that were created since `since`.
    #[must_use]
    pub fn new(since: Timestamp) -> Self {
        Self { since, measured: Mutex::default() }
    }

    /// Observes the durations of pods that reached a step and were not measured yet.
    pub fn observe(&self, index: &Index, decisions: &PodDecisions, metrics: &Metrics) {
        let alive: BTreeSet<&str> = index.pods.values().filter_map(|pod| pod.metadata.uid.as_deref()).collect();
        let mut measured = self.measured.lock();
        let steps = [
            (&metrics::BOUND, &metrics::PLACED_BOUND, condition::POD_SCHEDULED),
            (&metrics::STARTUP, &metrics::PLACED_STARTUP, condition::READY),
        ];
        for (former, (metric, placed, type_)) in measured.iter_mut().zip(steps) {
            let mut present = BTreeSet::new();
            for (uid, created, reached) in index.pods.values().filter_map(|pod| self.took(pod, type_)) {
                if !former.contains(uid) {
                    metrics.observe(metric, NoLabels, since(created, reached));
                    let from = decisions.placed(uid);
                    from.into_iter().for_each(|moment| metrics.observe(placed, NoLabels, since(moment, reached)));
                }
                present.insert(uid.to_owned());
            }
            // Deleted pods need no memory. A pod that was ready once may become unready for a while, and is not measured again.
            former.retain(|uid| alive.contains(uid.as_str()));
            former.append(&mut present);
        }
    }

    fn took<'a>(&self, pod: &'a Pod, type_: &str) -> Option<(&'a str, Timestamp, Timestamp)> {
        let created = pod.metadata.creation_timestamp.as_ref()?.0;
        let found: &PodCondition = pod.condition(type_).filter(|found| found.status == condition::TRUE)?;
        let reached = found.last_transition_time.as_ref()?.0;
        let uid = pod.metadata.uid.as_deref()?;
        (created >= self.since).then_some((uid, created, reached))
    }
}
