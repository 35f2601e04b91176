//! Pods in the state one second after their creation: with a name and an owner, and marked unschedulable by kube-scheduler.

use std::sync::Arc;

use api::objects::{Pod, PodCondition, PodStatus, PodTemplateSpec};
use api::{condition, reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use snapshot::{Admission, Ignored, IgnoredReason, MissingClass};

use super::Expansion;

/// Reason of pods that wait for their scheduling gates.
const GATED: &str = "SchedulingGated";

/// Owner of new pods.
pub(super) struct Owner<'a> {
    api_version: &'static str,
    kind: &'static str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    uid: String,
}

impl<'a> Owner<'a> {
    pub(super) fn new(api_version: &'static str, kind: &'static str, metadata: &'a ObjectMeta) -> Self {
        let (namespace, name) = super::key(metadata);
        let uid = metadata.uid.clone().unwrap_or_else(|| format!("{kind}/{namespace}/{name}"));
        Self { api_version, kind, namespace, name, uid }
    }
}

/// Returns the pod of this name that its owner would create.
pub(super) fn pod_from_template(owner: &Owner<'_>, template: &PodTemplateSpec, name: String) -> Pod {
    let reference = OwnerReference {
        api_version: owner.api_version.to_owned(),
        kind: owner.kind.to_owned(),
        name: owner.name.to_owned(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    };
    let mut spec = template.spec.clone();
    spec.node_name.clear();
    Pod {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(owner.namespace.to_owned()),
            labels: template.metadata.labels.clone(),
            annotations: template.metadata.annotations.clone(),
            owner_references: Some(vec![reference]),
            ..ObjectMeta::default()
        },
        spec: spec.into(),
        status: PodStatus::default(),
    }
}

/// Adds the fields that the API server and kube-scheduler would have written into new pods.
pub(super) fn complete(pods: &mut [Arc<Pod>], admission: &Admission<'_>) -> Expansion {
    let mut expansion = Expansion::default();
    for pod in pods.iter_mut().map(Arc::make_mut) {
        let name = format!("{}/{}", pod.namespace(), pod.name());
        let is_new = is_new(pod);
        let uid = pod.metadata.uid.get_or_insert_with(|| name.clone()).clone();
        if is_new {
            expansion.warnings.extend(admission.missing_classes(&pod.spec).iter().map(ToString::to_string));
            match admission.admit(pod.namespace(), &pod.spec) {
                Ok(spec) => *pod.spec = spec,
                Err(error) => {
                    expansion.refused.push(Ignored { pod: name, uid, reason: IgnoredReason::Refused(error) });
                }
            }
        }
        if pod.spec.priority.is_none() {
            let priority = admission.priority(&pod.spec);
            if priority.is_none() && !is_new {
                let class = MissingClass::Priority(pod.spec.priority_class_name.clone());
                expansion.warnings.push(class.to_string());
            }
            pod.spec.priority = Some(priority.unwrap_or_default().value);
        }
        mark_unschedulable(pod);
    }
    expansion
}

/// Reports whether the pod has not been through an API server, which writes each of these fields.
fn is_new(pod: &Pod) -> bool {
    let ObjectMeta { uid, creation_timestamp, .. } = &pod.metadata;
    uid.is_none() && creation_timestamp.is_none() && !pod.is_bound() && pod.status == PodStatus::default()
}

/// Adds kube-scheduler's condition to a pod without one: unschedulable, or gated by its scheduling gates.
fn mark_unschedulable(pod: &mut Pod) {
    let is_new = pod.condition(condition::POD_SCHEDULED).is_none();
    if !is_new || pod.is_bound() || pod.is_terminal() {
        return;
    }
    let gated = !pod.spec.scheduling_gates.is_empty();
    pod.status.conditions.push(PodCondition {
        type_: condition::POD_SCHEDULED.to_owned(),
        status: condition::FALSE.to_owned(),
        reason: if gated { GATED } else { reason::UNSCHEDULABLE }.to_owned(),
        last_transition_time: None,
    });
}
