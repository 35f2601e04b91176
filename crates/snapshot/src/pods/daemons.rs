//! DaemonSets, whose pods run on every node that they fit.

use api::objects::{DaemonSet, PodTemplateSpec};
use api::{annotation, label, taint};
use planner::{Daemon, Effect, PodShape, Requirement, Toleration, TolerationOperator, ValueSet};

use super::ignored::IgnoredReason;
use super::records::{NewestPods, PodOwner, Records, raise};
use super::shapes::{self, ParsedShape};
use crate::pods::admission::Admission;
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
pub(crate) fn translate(
    input: &Input<'_>,
    admission: &Admission<'_>,
    records: &Records,
    problems: &mut Vec<Problem>,
) -> Vec<Daemon> {
    let mut daemons = Vec::new();
    for set in input.daemon_sets.iter().filter(|set| set.metadata.deletion_timestamp.is_none()) {
        let owner = owner(set);
        let name = format!("{}/{}", owner.namespace, owner.name);
        let shape = match records.newest_pods(&owner) {
            Some(pods) => shape_of_pods(set, pods, admission, owner.namespace),
            None => shape_of_template(&set.spec.template, admission, owner.namespace),
        };
        match shape {
            Ok(shape) => {
                let labels = set.spec.template.metadata.labels.clone().unwrap_or_default();
                daemons.push(Daemon { name, shape: PodShape { labels, ..for_new_nodes(shape) } });
            }
            Err(reason) => problems.push(Problem::Daemon { name, reason }),
        }
    }
    daemons.sort_by(|one, other| one.name.cmp(&other.name));
    daemons
}

fn owner(set: &DaemonSet) -> PodOwner<'_> {
    PodOwner {
        namespace: set.metadata.namespace.as_deref().unwrap_or_default(),
        kind: "DaemonSet",
        name: set.metadata.name.as_deref().unwrap_or_default(),
        uid: set.metadata.uid.as_deref(),
    }
}

/// Returns the shape of a DaemonSet's next pod from the pods that it has. Admission and webhooks have changed them already.
///
/// The DaemonSet controller replaces the required node affinity of each pod by its node, so that of the template counts. If the
/// template has changed since the newest pod was created, the requests of the template count where they are greater.
fn shape_of_pods(
    set: &DaemonSet,
    pods: NewestPods,
    admission: &Admission<'_>,
    namespace: &str,
) -> Result<PodShape, IgnoredReason> {
    let affinity = shapes::daemon_affinity(&set.spec.template.spec)?;
    let mut shape = PodShape { affinity, ..pods.shape };
    let generation = set.metadata.annotations.as_ref().and_then(|all| all.get(annotation::TEMPLATE_GENERATION));
    let of_pods = pods.revision.get(label::POD_TEMPLATE_GENERATION);
    if generation.zip(of_pods).is_some_and(|(generation, of_pods)| generation != of_pods) {
        let template = shape_of_template(&set.spec.template, admission, namespace);
        raise(&mut shape.requests, &template.map(|template| template.requests).unwrap_or_default());
    }
    Ok(shape)
}

/// Returns the shape of a DaemonSet's pod as the API server would admit it.
fn shape_of_template(
    template: &PodTemplateSpec,
    admission: &Admission<'_>,
    namespace: &str,
) -> Result<PodShape, IgnoredReason> {
    let labels = template.metadata.labels.clone().unwrap_or_default();
    let spec = admission.admit(namespace, &template.spec).map_err(IgnoredReason::Refused)?;
    let ParsedShape { shape, refusal } = shapes::daemon_shape(namespace, &labels, &spec);
    refusal.map_or(Ok(shape), Err)
}

/// Labels that every node has after initialization, with the value `true`.
const INITIALIZED_LABELS: [&str; 2] = [label::REGISTERED, label::INITIALIZED];

/// Reports whether every new node will satisfy the requirement after its initialization.
fn will_hold(required: &Requirement) -> bool {
    INITIALIZED_LABELS.contains(&required.key.as_str()) && ValueSet::from_requirement(required).allows(Some("true"))
}

/// Adds the DaemonSet controller's tolerations to a shape, and removes requirements that every node will satisfy.
fn for_new_nodes(mut shape: PodShape) -> PodShape {
    shape.selector.retain(|required| !will_hold(required));
    shape.affinity.iter_mut().for_each(|term| term.retain(|required| !will_hold(required)));
    let all = TOLERATED.map(|(key, effect)| Toleration {
        key: Some(key.to_owned()),
        operator: TolerationOperator::Exists,
        value: String::new(),
        effect: Some(effect),
    });
    let missing = all.into_iter().filter(|it| !shape.tolerations.contains(it)).collect::<Vec<_>>();
    shape.tolerations.extend(missing);
    shape
}
