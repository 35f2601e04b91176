//! DaemonSets, whose pods run on every node that they fit.

use api::{label, taint};
use planner::{Daemon, Effect, PodShape, Requirement, Toleration, TolerationOperator, ValueSet};

use super::shapes;
use super::terms::Labels;
use crate::{Input, Problem};

/// Taints that the DaemonSet controller adds as tolerations to its pods.
const TOLERATED: [(&str, Effect); 6] = [
    (taint::NOT_READY, Effect::NoExecute),
    (taint::UNREACHABLE, Effect::NoExecute),
    ("node.kubernetes.io/disk-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/memory-pressure", Effect::NoSchedule),
    ("node.kubernetes.io/pid-pressure", Effect::NoSchedule),
    (taint::UNSCHEDULABLE, Effect::NoSchedule),
];

/// Translates all DaemonSets that are not being deleted, ordered by name. The labels of their pods are still complete.
pub(crate) fn translate(input: &Input<'_>, problems: &mut Vec<Problem>) -> Vec<Daemon> {
    let mut daemons = Vec::new();
    for set in input.daemon_sets.iter().filter(|set| set.metadata.deletion_timestamp.is_none()) {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let name = format!("{namespace}/{}", set.metadata.name.as_deref().unwrap_or_default());
        let template = &set.spec.template;
        let labels = template.metadata.labels.clone().unwrap_or_default();
        let parsed = shapes::daemon_shape(namespace, &labels, &template.spec);
        match parsed.refusal {
            None => daemons.push(Daemon { name, shape: daemon_pod_shape(parsed.shape, labels) }),
            Some(reason) => problems.push(Problem::Daemon { name, reason }),
        }
    }
    daemons.sort_by(|one, other| one.name.cmp(&other.name));
    daemons
}

/// Labels that every node has after initialization, with the value `true`.
const INITIALIZED_LABELS: [&str; 2] = [label::REGISTERED, label::INITIALIZED];

/// Reports whether every new node will satisfy the requirement after its initialization.
fn will_hold(required: &Requirement) -> bool {
    INITIALIZED_LABELS.contains(&required.key.as_str()) && ValueSet::from_requirement(required).allows(Some("true"))
}

/// Adds the DaemonSet controller's tolerations to a shape, and removes requirements that every node will satisfy.
fn daemon_pod_shape(mut shape: PodShape, labels: Labels) -> PodShape {
    shape.labels = labels;
    shape.selector.retain(|required| !will_hold(required));
    shape.affinity.iter_mut().for_each(|term| term.retain(|required| !will_hold(required)));
    shape.tolerations.extend(TOLERATED.map(|(key, effect)| Toleration {
        key: Some(key.to_owned()),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: Some(effect),
    }));
    shape
}
