//! API objects, and the changes that Kubernetes makes to them.

use std::sync::Arc;

use anyhow::Context;
use api::objects::{ContainerStatus, Node, Pod, PodCondition, PodDisruptionBudget, ResourceList};
use api::{NodePool, Quantity, condition, label, quantity};
use planner::{InstanceType, Resources, Size};
use serde_json::{Value, json};

use crate::app::CONTAINER;
use crate::clock::{Moment, timestamp};
use crate::market::Instance;

/// Returns a NodePool that is ready.
///
/// # Errors
/// Returns an error if the disruption block is invalid.
pub fn pool(
    name: &str,
    capacity_types: &[&str],
    annotations: &Value,
    disruption: &Value,
    expire_after: &str,
) -> anyhow::Result<Arc<NodePool>> {
    let pool = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": name, "uid": name, "annotations": annotations},
        "spec": {
            "disruption": disruption,
            "template": {"spec": {
                "requirements": [{"key": label::CAPACITY_TYPE, "operator": "In", "values": capacity_types}],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "expireAfter": expire_after,
            }},
        },
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "Ready", "message": "",
            "lastTransitionTime": "2026-11-01T00:00:00Z",
        }]},
    });
    serde_json::from_value(pool).context("a made-up pool")
}

/// Returns a Node as kubelet creates it; registration adds the labels of the NodeClaim.
///
/// # Errors
/// Returns an error if the generated object cannot be deserialized.
pub fn node(instance: &Instance, kind: &InstanceType, now: Moment) -> anyhow::Result<Arc<Node>> {
    let mut labels: serde_json::Map<String, Value> =
        kind.labels.iter().filter_map(|(key, values)| Some((key.clone(), json!(values.first()?)))).collect();
    for (key, value) in [
        (label::HOSTNAME, instance.id.as_str()),
        (label::INSTANCE_TYPE, &kind.name),
        (label::ZONE, &instance.zone),
        (label::CAPACITY_TYPE, instance.capacity_type.as_str()),
    ] {
        labels.insert(key.to_owned(), json!(value));
    }
    let node = json!({
        "metadata": {
            "name": instance.id, "uid": instance.id, "labels": labels,
            "creationTimestamp": timestamp(now).to_string(),
        },
        "spec": {"providerID": provider_id(instance)},
        "status": {
            "capacity": amounts(&kind.capacity), "allocatable": amounts(&kind.allocatable),
            "conditions": [{"type": condition::READY, "status": condition::FALSE}],
        },
    });
    serde_json::from_value(node).context("a made-up node")
}

/// Returns the provider ID of an instance.
#[must_use]
pub fn provider_id(instance: &Instance) -> String {
    format!("aws:///{}/{}", instance.zone, instance.id)
}

/// Returns the quantities in the API's form, without those that are zero.
pub fn amounts(resources: &Resources) -> std::collections::BTreeMap<String, String> {
    let all = resources.iter().filter(|(_, amount)| *amount > 0);
    all.map(|(name, amount)| (name.to_owned(), quantity::text(name, amount))).collect()
}

/// Returns a pod of a workload. The first ten digits of its UID are unique, as usage reports require.
pub(super) fn pod(template: &Arc<Pod>, name: &str, number: usize, now: Moment) -> Arc<Pod> {
    let mut pod = Pod::clone(template);
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.uid = Some(format!("{number:010x}"));
    pod.metadata.creation_timestamp = Some(api::status::Time(timestamp(now)));
    Arc::new(pod)
}

pub(super) fn set_bound(pod: &mut Arc<Pod>, node: &str) {
    let pod = Arc::make_mut(pod);
    node.clone_into(&mut pod.spec.node_name);
    pod.status.nominated_node_name.clear();
    pod.status.conditions = vec![said(condition::POD_SCHEDULED, condition::TRUE, "")];
}

pub(super) fn set_expected(pod: &mut Arc<Pod>, node: Option<&str>) {
    node.unwrap_or_default().clone_into(&mut Arc::make_mut(pod).status.nominated_node_name);
}

pub(super) fn set_unschedulable(pod: &mut Arc<Pod>) {
    if !pod.is_unschedulable() {
        Arc::make_mut(pod).status.conditions =
            vec![said(condition::POD_SCHEDULED, condition::FALSE, api::reason::UNSCHEDULABLE)];
    }
}

pub(super) fn set_running(pod: &mut Arc<Pod>, now: Moment) {
    let pod = Arc::make_mut(pod);
    "Running".clone_into(&mut pod.status.phase);
    pod.status.start_time = Some(api::status::Time(timestamp(now)));
    pod.status.conditions.push(said(condition::READY, condition::TRUE, ""));
}

pub(super) fn set_deletion(pod: &mut Arc<Pod>, at: Moment) {
    let pod = Arc::make_mut(pod);
    pod.metadata.deletion_timestamp = Some(api::status::Time(timestamp(at)));
    pod.status.conditions.retain(|found| found.type_ != condition::READY);
}

/// Sets new requests and the amounts that kubelet has allocated.
pub(super) fn set_amounts(pod: &mut Arc<Pod>, asks: Size, kept: Size) {
    let pod = Arc::make_mut(pod);
    for container in &mut pod.spec.containers {
        container.resources.requests = list(asks);
    }
    let status =
        ContainerStatus { name: CONTAINER.to_owned(), allocated_resources: list(kept), ..ContainerStatus::default() };
    pod.status.container_statuses = vec![status];
    // As in the controller's watch, a status without new information is dropped.
    pod.forget_usual_statuses();
}

/// Sets or removes kubelet's condition for a pending resize.
pub(super) fn set_pending(pod: &mut Arc<Pod>, reason: Option<&str>) {
    let conditions = &mut Arc::make_mut(pod).status.conditions;
    conditions.retain(|found| found.type_ != condition::POD_RESIZE_PENDING);
    conditions.extend(reason.map(|reason| said(condition::POD_RESIZE_PENDING, condition::TRUE, reason)));
}

fn list(size: Size) -> ResourceList {
    let text = |(name, amount): (&str, i64)| (name.to_owned(), Quantity(quantity::text(name, amount)));
    size.resources().iter().map(text).collect()
}

/// Returns disruptions allowed, desired healthy, current healthy and expected pods.
pub(super) fn figures(budget: &PodDisruptionBudget) -> (usize, usize, usize, usize) {
    let status = &budget.status;
    let count = |figure: i32| usize::try_from(figure).unwrap_or_default();
    (
        count(status.disruptions_allowed),
        count(status.desired_healthy),
        count(status.current_healthy),
        count(status.expected_pods),
    )
}

fn said(type_: &str, status: &str, reason: &str) -> PodCondition {
    PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        last_transition_time: None,
    }
}
