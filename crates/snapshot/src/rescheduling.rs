//! Which pods need a place: those that the scheduler refused, and those whose node is leaving (core 2.2).

use std::collections::BTreeMap;

use api::objects::{Pod, PodDisruptionBudget};
use api::{annotation, duration};
use jiff::Timestamp;

use crate::ignored::{Ignored, IgnoredReason};
use crate::nodes::Machine;
use crate::shapes::{self, Shapes};
use crate::{Input, Machines, millis};

/// Where recent plans promised pods a place, by UID.
type Promises<'a> = BTreeMap<&'a str, &'a str>;

/// Pods that the scheduler found no place for.
pub(crate) fn pending(
    input: &Input<'_>,
    promises: &Promises<'_>,
    shapes: &mut Shapes,
    ignored: &mut Vec<Ignored>,
) -> Vec<planner::Pod> {
    let mut pods: Vec<&Pod> = input.pods.iter().copied().filter(|pod| pod.is_unschedulable()).collect();
    pods.sort_by_key(|pod| (pod.namespace(), pod.name()));
    pods.into_iter().filter_map(|pod| translate(promises, pod, None, shapes, ignored)).collect()
}

/// Pods whose node is on its way out and that will need another.
pub(crate) fn leaving(
    input: &Input<'_>,
    machines: &Machines<'_>,
    promises: &Promises<'_>,
    shapes: &mut Shapes,
    ignored: &mut Vec<Ignored>,
) -> Vec<planner::Pod> {
    let mut pods = Vec::new();
    for machine in machines {
        let Some(leaving) = machine.leaving() else { continue };
        let forced = matches!(leaving, planner::Leaving::Interrupted { .. });
        for pod in machine.pods.iter().copied().filter(|pod| is_reschedulable(pod)) {
            match holds(input, pod).filter(|_| !forced) {
                Some(reason) => ignored.push(named(pod, reason)),
                None => pods.extend(translate(promises, pod, Some(machine), shapes, ignored)),
            }
        }
    }
    pods
}

fn translate(
    promises: &Promises<'_>,
    pod: &Pod,
    machine: Option<&Machine<'_>>,
    shapes: &mut Shapes,
    ignored: &mut Vec<Ignored>,
) -> Option<planner::Pod> {
    let shape = match shapes::of_pod(&pod.spec) {
        Ok(shape) => shapes.intern(shape),
        Err(reason) => {
            ignored.push(named(pod, reason));
            return None;
        }
    };
    let uid = uid(pod);
    let created = pod.metadata.creation_timestamp.as_ref();
    Some(planner::Pod {
        name: full_name(pod),
        shape,
        created: created.map(|at| millis(at.0)).unwrap_or_default(),
        leaving_node: machine.map(|machine| machine.name().to_owned()),
        nominated: promises.get(uid.as_str()).map(|to| (*to).to_owned()),
        uid,
        ..planner::Pod::default()
    })
}

/// Whether the pod would need another place when its node goes: it is alive, or it is ending and a StatefulSet will
/// make it anew under the same name.
pub(crate) fn is_reschedulable(pod: &Pod) -> bool {
    let lives = !pod.is_terminal() && (!pod.is_terminating() || pod.is_stateful());
    lives && !pod.is_daemon() && !pod.is_static()
}

/// Why a pod on a leaving node stays until the deadline, and so gets no place in advance.
fn holds(input: &Input<'_>, pod: &Pod) -> Option<IgnoredReason> {
    if asks_not_to_be_disrupted(pod, input.now) {
        return Some(IgnoredReason::DoNotDisrupt);
    }
    let own: Vec<&PodDisruptionBudget> = input.budgets.iter().copied().filter(|budget| selects(budget, pod)).collect();
    let blocked = own.len() > 1 || own.iter().any(|budget| budget.blocks_for_ever());
    blocked.then_some(IgnoredReason::BlockedByBudget)
}

fn selects(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let no_labels = BTreeMap::new();
    let labels = pod.metadata.labels.as_ref().unwrap_or(&no_labels);
    budget.metadata.namespace.as_deref() == Some(pod.namespace())
        && budget.spec.selector.as_ref().is_some_and(|selector| selector.matches(labels))
}

/// Whether `karpenter.sh/do-not-disrupt` holds: `true`, or a duration since the pod's start that is not over.
pub(crate) fn asks_not_to_be_disrupted(pod: &Pod, now: Timestamp) -> bool {
    let Some(text) = pod.annotation(annotation::DO_NOT_DISRUPT) else { return false };
    if text == annotation::TRUE {
        return true;
    }
    let Some(nanos) = duration::nanos(text).ok().filter(|nanos| *nanos > 0) else { return false };
    let started = pod.status.start_time.as_ref().map_or(now, |at| at.0);
    now.as_nanosecond() < started.as_nanosecond() + i128::from(nanos)
}

fn named(pod: &Pod, reason: IgnoredReason) -> Ignored {
    Ignored { pod: full_name(pod), uid: uid(pod), reason }
}

pub(crate) fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

pub(crate) fn full_name(pod: &Pod) -> String {
    format!("{}/{}", pod.namespace(), pod.name())
}
