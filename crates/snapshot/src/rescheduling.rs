//! Which pods need a place: those that the scheduler refused, and those whose node is leaving (core 2.2).
//!
//! Where many pods come at once, kube-scheduler takes its time with each. One that it has not looked at yet and that is like one that it
//! refused will be refused too, so it counts already: a thousand replicas are planned together and not as they are refused. So does one
//! that has come just now beside one that was refused: where a node has room for it, the planner puts it there and buys nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::objects::{Pod, PodDisruptionBudget};
use jiff::{SignedDuration, Timestamp};
use planner::{Leaving, PodShape};

use crate::ignored::{Ignored, IgnoredReason};
use crate::nodes::Nominated;
use crate::records::{Group, Record, Records};
use crate::volumes::Singles;
use crate::{Input, millis};

/// As long as a batch may take to collect what comes, and half as long again.
const JUST_NOW: SignedDuration = SignedDuration::from_secs(15);

/// What pods become: planned, or ignored for a reason.
pub(crate) struct Sorting<'a> {
    input: &'a Input<'a>,
    promises: Nominated<'a>,
    singles: Singles,
    shapes: Shapes,
    pub(crate) pods: Vec<planner::Pod>,
    pub(crate) ignored: Vec<Ignored>,
}

impl<'a> Sorting<'a> {
    /// Nothing sorted yet. `promises` say where recent plans promised pods a place, by UID; `singles` which claims are
    /// taken.
    pub(crate) fn new(input: &'a Input<'a>, promises: Nominated<'a>, singles: Singles) -> Self {
        Self { input, promises, singles, shapes: Shapes::default(), pods: Vec::new(), ignored: Vec::new() }
    }

    /// Pods that the scheduler found no place for, and those that wait for something else first.
    pub(crate) fn pending(&mut self, records: &Records) {
        let loose = records.loose();
        let refused = loose.iter().filter(|record| record.pod.is_unschedulable());
        let refused: BTreeSet<Likeness<'_>> = refused.map(|record| likeness(record)).collect();
        let refusing: BTreeSet<&str> = refused.iter().map(|(_, scheduler)| *scheduler).collect();
        for record in loose {
            let pod = &record.pod;
            match waits(pod, records) {
                Some(reason) => self.ignore(record, reason),
                None if pod.is_unschedulable() => self.plan(record, None),
                None if pod.is_unjudged() => {
                    let comes_with = refusing.contains(pod.spec.scheduler_name.as_str()) && self.has_just_come(pod);
                    if comes_with || refused.contains(&likeness(record)) {
                        self.plan(record, None);
                    }
                }
                None => {}
            }
        }
    }

    /// Pods whose node is on its way out and that will need another.
    pub(crate) fn leaving(&mut self, node: &planner::Node, leaving: &Leaving, records: &Records, pods: Option<&Group>) {
        let forced = matches!(leaving, Leaving::Interrupted { .. });
        let now = self.input.now;
        let ends = node.termination_grace.is_some();
        let surging: BTreeSet<&str> = node.pods.iter().filter(|pod| pod.surges).map(|pod| pod.uid.as_str()).collect();
        for record in records.members(pods).into_iter().filter(|record| is_reschedulable(&record.pod)) {
            // A copy of it, or the end of the drain, lets a pod go that its budget wants to stay.
            let yields = ends || record.pod.metadata.uid.as_deref().is_some_and(|uid| surging.contains(uid));
            match holds(&records.budgets(record), &record.pod, yields, now).filter(|_| !forced) {
                Some(reason) => self.ignore(record, reason),
                None => self.plan(record, Some(&node.name)),
            }
        }
    }

    /// A pod that stands for room.
    pub(crate) fn virtual_pod(&mut self, shape: &Arc<PodShape>, pod: planner::Pod) {
        let shape = self.shapes.position(shape);
        self.pods.push(planner::Pod { shape, ..pod });
    }

    /// Shapes, pods and ignored pods, each in the order of names.
    pub(crate) fn finish(mut self) -> (Vec<Arc<PodShape>>, Vec<planner::Pod>, Vec<Ignored>) {
        self.pods.sort_by(|one, other| (&one.name, &one.uid).cmp(&(&other.name, &other.uid)));
        self.ignored.sort_by(|one, other| (&one.pod, &one.uid).cmp(&(&other.pod, &other.uid)));
        (self.shapes.list, self.pods, self.ignored)
    }

    /// The claims that are for one pod at a time, of pods to be placed and of those that have a node.
    pub(crate) fn single_claims(&self) -> BTreeSet<String> {
        let claims = self.pods.iter().flat_map(|pod| &pod.claims);
        let waiting = claims.filter(|claim| self.singles.contains(claim));
        waiting.chain(self.singles.in_use()).cloned().collect()
    }

    fn has_just_come(&self, pod: &Pod) -> bool {
        let created = pod.metadata.creation_timestamp.as_ref();
        created.is_some_and(|at| self.input.now.duration_since(at.0).abs() <= JUST_NOW)
    }

    fn ignore(&mut self, record: &Record, reason: IgnoredReason) {
        self.ignored.push(Ignored { pod: full_name(&record.pod), uid: uid(&record.pod), reason });
    }

    fn plan(&mut self, record: &Record, node: Option<&str>) {
        if let Some(reason) = record.refusal().cloned().or_else(|| self.singles.waits(record)) {
            self.ignore(record, reason);
            return;
        }
        let pod = &record.pod;
        let uid = uid(pod);
        let created = pod.metadata.creation_timestamp.as_ref();
        let promise = self.promises.get(uid.as_str());
        self.pods.push(planner::Pod {
            name: full_name(pod),
            shape: self.shapes.position(&record.shape),
            created: created.map(|at| millis(at.0)).unwrap_or_default(),
            leaving_node: node.map(str::to_owned),
            nominated: promise.map(|(_, to)| (*to).to_owned()),
            nominated_after: promise.map_or(0, |(number, _)| *number),
            claims: record.claims.clone(),
            buffer: None,
            mix: record.mix.clone(),
            uid,
        });
    }
}

/// Shapes in the order in which they were met. Equal ones are one `Arc`, so addresses tell them apart.
#[derive(Default)]
struct Shapes {
    list: Vec<Arc<PodShape>>,
    known: BTreeMap<usize, usize>,
}

impl Shapes {
    fn position(&mut self, shape: &Arc<PodShape>) -> usize {
        *self.known.entry(Arc::as_ptr(shape).addr()).or_insert_with(|| {
            self.list.push(Arc::clone(shape));
            self.list.len() - 1
        })
    }
}

/// What a scheduler's answer to a pod rests on: its shape, and whose scheduler it is.
type Likeness<'a> = (usize, &'a str);

fn likeness(record: &Record) -> Likeness<'_> {
    (Arc::as_ptr(&record.shape).addr(), &record.pod.spec.scheduler_name)
}

/// What a pod without a node waits for, if not for a place. One that is nominated to a node waits for the pods that the scheduler has
/// asked to end there; where none ends, the nomination is an expectation of ours, or of a scheduler that was wrong.
fn waits(pod: &Pod, records: &Records) -> Option<IgnoredReason> {
    if pod.is_terminating() || pod.is_daemon() || pod.is_static() {
        return None;
    }
    if let Some(gate) = pod.spec.scheduling_gates.iter().map(|gate| &gate.name).min() {
        return Some(IgnoredReason::Gated { gate: gate.clone() });
    }
    let node = &pod.status.nominated_node_name;
    let makes_room = || records.members(records.on(node)).into_iter().any(|record| record.pod.is_terminating());
    (!node.is_empty() && makes_room()).then(|| IgnoredReason::Preempting { node: node.clone() })
}

/// Whether the pod would need another place when its node goes: it is alive, or it is ending and a StatefulSet will
/// make it anew under the same name. One that waits for its copy has none to come: that is a pod by itself.
pub(crate) fn is_reschedulable(pod: &Pod) -> bool {
    let lives = !pod.is_terminal() && (!pod.is_terminating() || pod.is_stateful());
    lives && !pod.is_daemon() && !pod.is_static() && pod.surged().is_none()
}

/// Why a pod on a leaving node stays until the deadline, and so gets no place in advance: a machine that is bought for one that never
/// comes would be given back and bought again.
fn holds(own: &[&PodDisruptionBudget], pod: &Pod, yields: bool, now: Timestamp) -> Option<IgnoredReason> {
    if pod.is_do_not_disrupt(now) {
        return Some(IgnoredReason::DoNotDisrupt);
    }
    pod.unevictable(own, yields, now).map(|_| IgnoredReason::BlockedByBudget)
}

pub(crate) fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

pub(crate) fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace(), pod.name())
}
