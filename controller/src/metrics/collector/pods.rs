//! Metrics of pods: requests, states, longest waits, and durations of ended waits.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use api::condition;
use api::objects::{Pod, PodCondition, ResourceList, pod_requests};
use daemon::metric::{Gauge, Metrics, NoLabels};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{Amounts, add, amounts, labels, since, units};
use crate::metrics::detail::MetricsDetail;
use crate::metrics::gauge_set::Sample;
use crate::metrics::{self, ByNameNamespace};
use crate::state::index::Index;
use crate::state::plans::pod_decisions::PodDecisions;

/// Adds the pod itself, because a node has a limit of pods.
fn with_itself(mut asked: Amounts) -> Amounts {
    asked.insert("pods".to_owned(), 1.0);
    asked
}

pub(super) fn requests(pod: &Pod) -> Amounts {
    let asked = pod_requests(&pod.spec).unwrap_or_default().into_iter();
    with_itself(asked.map(|(name, amount)| (name.clone(), units(&name, amount))).collect())
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

/// Sources of the metrics of pods.
#[derive(Clone, Copy)]
pub(super) struct PodSource<'a> {
    pub(super) index: &'a Index,
    pub(super) decisions: &'a PodDecisions,
    pub(super) waits: &'a Waits,
}

pub(super) fn samples(source: PodSource<'_>, detail: MetricsDetail, now: Timestamp) -> Vec<Sample> {
    let PodSource { index, decisions, waits } = source;
    let mut states: BTreeMap<Vec<Cow<'_, str>>, f64> = BTreeMap::new();
    let mut waiting = Waiting::default();
    for pod in index.pods.values() {
        *states.entry(labels::values_of_pod(detail, index, pod)).or_default() += 1.0;
        let is_alive = !pod.is_terminal() && !pod.is_terminating();
        if is_alive && (pod.status.phase != "Running" || waits.never_ready(pod)) {
            waiting.add(pod, decisions, now);
        }
    }
    let states = states.into_iter().map(|(values, count)| {
        let labels = detail.pod_labels().iter().copied().zip(values.into_iter().map(Cow::into_owned)).collect();
        Sample::labelled(metrics::PODS.description(), labels, count)
    });
    states.chain(waiting.samples(detail.most_pods())).collect()
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
        self.unstarted.0.push((age, pod));
        self.placed_unstarted.0.extend(placed.map(|seconds| (seconds, pod)));
        if pod.is_bound() {
            return;
        }
        self.unbound.0.push((age, pod));
        self.placed_unbound.0.extend(placed.map(|seconds| (seconds, pod)));
        if !decisions.has(uid) {
            self.undecided.0.push((age, pod));
        }
    }

    fn samples(self, most: usize) -> impl Iterator<Item = Sample> {
        let longest_by_metric = [
            (self.unbound, &metrics::UNBOUND),
            (self.unstarted, &metrics::UNSTARTED),
            (self.undecided, &metrics::UNDECIDED),
            (self.placed_unbound, &metrics::PLACED_UNBOUND),
            (self.placed_unstarted, &metrics::PLACED_UNSTARTED),
        ];
        longest_by_metric.into_iter().flat_map(move |(longest, metric)| longest.samples(metric, most))
    }
}

/// Pods and their waits, in the order of the pods' names.
#[derive(Default)]
struct Longest<'a>(Vec<(f64, &'a Pod)>);

impl<'a> Longest<'a> {
    /// Returns the longest waits, by first name among equals.
    fn samples(mut self, gauge: &Gauge<ByNameNamespace<'_>>, most: usize) -> impl Iterator<Item = Sample> {
        self.0.sort_by(|one, other| other.0.total_cmp(&one.0));
        self.0.truncate(most);
        self.0.into_iter().map(move |(seconds, pod)| {
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

    /// Reports whether a running pod was never ready. Karpenter too ends the start of a pod when it is ready, and knows only pods
    /// that were pending in this process.
    fn never_ready(&self, pod: &Pod) -> bool {
        let created = pod.metadata.creation_timestamp.as_ref().is_some_and(|created| created.0 >= self.since);
        let [_, ready] = &*self.measured.lock();
        created && pod.metadata.uid.as_ref().is_some_and(|uid| !ready.contains(uid))
    }

    fn took<'a>(&self, pod: &'a Pod, type_: &str) -> Option<(&'a str, Timestamp, Timestamp)> {
        let created = pod.metadata.creation_timestamp.as_ref()?.0;
        let found: &PodCondition = pod.condition(type_).filter(|found| found.status == condition::TRUE)?;
        let reached = found.last_transition_time.as_ref()?.0;
        let uid = pod.metadata.uid.as_deref()?;
        (created >= self.since).then_some((uid, created, reached))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::{at, pod};
    use crate::metrics::gauge_set::GaugeSet;
    use crate::metrics::table;

    /// Rows: steps of a pod as phase, status of its condition Ready, and whether the pod counts as not started after each of them.
    /// The pod is created at 60, the process starts before or after.
    #[test]
    fn samples_count_a_pod_as_unstarted_until_it_is_ready() {
        let rows = [
            (0, vec![("Pending", "False", true), ("Running", "False", true), ("Running", "True", false)]),
            (0, vec![("Running", "True", false), ("Running", "False", false)]),
            (0, vec![("Running", "False", true), ("Failed", "False", false)]),
            (0, vec![("Pending", "False", true), ("Succeeded", "False", false)]),
            (90, vec![("Pending", "False", true), ("Running", "False", false)]),
        ];
        for (start, steps) in rows {
            let (waits, decisions, mut index) = (Waits::new(at(start)), PodDecisions::new(at(start)), Index::default());
            for (number, (phase, ready, expected)) in steps.iter().enumerate() {
                let metrics = Metrics::new(&table());
                let change = json!({
                    "metadata": {"creationTimestamp": at(60).to_string(), "resourceVersion": number.to_string()},
                    "status": {"phase": phase, "conditions": [
                        {"type": "Ready", "status": ready, "lastTransitionTime": at(100).to_string()},
                    ]},
                });
                drop(index.apply(pod(&change).as_ref().clone(), at(100), true));
                waits.observe(&index, &decisions, &metrics);
                let source = PodSource { index: &index, decisions: &decisions, waits: &waits };
                GaugeSet::default().replace(&metrics, samples(source, MetricsDetail::default(), at(100)));
                let text = metrics.render();
                let value = text.lines().find(|line| line.starts_with("karpenter_pods_unstarted_time_seconds{"));
                let seconds = value.and_then(|line| line.rsplit(' ').next());
                assert_eq!(seconds, expected.then_some("40.0"), "{start} {steps:?}, step {number}");
            }
        }
    }
}
