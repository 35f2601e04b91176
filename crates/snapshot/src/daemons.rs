//! DaemonSets, whose pods run on every node that they fit.

use api::{label, taint};
use planner::{Daemon, Effect, PodShape, Requirement, Toleration, TolerationOperator, ValueSet};

use crate::terms::Labels;
use crate::{Input, Problem, shapes};

/// Taints that the DaemonSet controller adds as tolerations to its pods.
const BORNE: [(&str, Effect); 6] = [
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
        let form = shapes::of_daemon(namespace, &labels, &template.spec);
        match form.refusal {
            None => daemons.push(Daemon { name, shape: grown(form.shape, labels) }),
            Some(reason) => problems.push(Problem::Daemon { name, reason }),
        }
    }
    daemons.sort_by(|one, other| one.name.cmp(&other.name));
    daemons
}

/// Labels that every node has after initialization, with the value `true`.
const COMING: [&str; 2] = [label::REGISTERED, label::INITIALIZED];

/// Reports whether every new node will satisfy the requirement after its initialization.
fn comes(asked: &Requirement) -> bool {
    COMING.contains(&asked.key.as_str()) && ValueSet::from_requirement(asked).allows(Some("true"))
}

/// Adds the DaemonSet controller's tolerations to a shape, and removes requirements that every node will satisfy.
fn grown(mut shape: PodShape, labels: Labels) -> PodShape {
    shape.labels = labels;
    shape.selector.retain(|asked| !comes(asked));
    shape.affinity.iter_mut().for_each(|term| term.retain(|asked| !comes(asked)));
    shape.tolerations.extend(BORNE.map(|(key, effect)| Toleration {
        key: Some(key.to_owned()),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: Some(effect),
    }));
    shape
}
