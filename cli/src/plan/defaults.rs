//! Defaults for objects that no controller has reconciled. Such objects count as valid, and get the fields that the API server
//! and the controllers would write.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::objects::{Namespace, Node, NodeCondition};
use api::status::{self, Condition};
use api::{NodeOverlay, NodePool, Taint, annotation, condition, taint};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use snapshot::SnapshotResult;

use super::{Conditions, Gate, Gates, workload};
use crate::input::Objects;
use crate::output::counted;

/// Phase of a claim that has its volume.
const BOUND: &str = "Bound";

/// Removes objects whose feature gate is closed, and returns warnings about objects that are used although their gate is closed
/// by default.
pub(crate) fn gates(objects: &mut Objects, gates: &Gates) -> Vec<String> {
    let mut warnings = Vec::new();
    let static_pools = objects.pools.iter().filter(|pool| pool.spec.replicas.is_some()).count();
    let rows = [
        ("NodeOverlay", gates.overlays, objects.overlays.len(), "NodeOverlay"),
        ("StaticCapacity", gates.static_pools, static_pools, "static NodePool"),
        ("CapacityBuffer", gates.buffers, objects.buffers.len(), "CapacityBuffer"),
    ];
    for (name, gate, count, what) in rows.into_iter().filter(|(_, _, count, _)| *count > 0) {
        let what = counted(count, what);
        match gate {
            Gate::Open => {}
            Gate::Default => warnings.push(format!(
                "{what} included: the controller requires feature gate {name}=true, which is off by default"
            )),
            Gate::Closed => warnings.push(format!("{what} ignored: feature gate {name} is off")),
        }
    }
    if gates.overlays == Gate::Closed {
        objects.overlays.clear();
    }
    if gates.static_pools == Gate::Closed {
        objects.pools.retain(|pool| pool.spec.replicas.is_none());
    }
    if gates.buffers == Gate::Closed {
        objects.buffers.clear();
    }
    warnings
}

/// Adds missing fields, and returns warnings about NodePools and NodeOverlays that are not used.
pub(crate) fn complete(objects: &mut Objects, now: Timestamp) -> Vec<String> {
    let mut warnings: Vec<String> =
        objects.pools.iter_mut().filter_map(|pool| self::pool(Arc::make_mut(pool), now)).collect();
    if objects.pools.is_empty() {
        warnings.push("no NodePool in the input, so no node can be launched".to_owned());
    }
    warnings.extend(unready_overlays(objects));
    objects.nodes.iter_mut().for_each(|one| node(Arc::make_mut(one)));
    claims(objects);
    namespaces(objects);
    warnings
}

fn pool(pool: &mut NodePool, now: Timestamp) -> Option<String> {
    let name = pool.metadata.name.clone().unwrap_or_default();
    if pool.metadata.deletion_timestamp.is_some() {
        return Some(format!("NodePool {name} is being deleted and is ignored"));
    }
    let conditions = &mut pool.status.get_or_insert_default().conditions;
    match status::find(conditions, condition::READY) {
        Some(ready) if ready.is_true() => None,
        Some(ready) => Some(format!("NodePool {name} is not Ready and is ignored: {}", ready.message)),
        None => {
            conditions.push(Condition {
                type_: condition::READY.to_owned(),
                status: condition::TRUE.to_owned(),
                observed_generation: 0,
                last_transition_time: Time(now),
                reason: condition::READY.to_owned(),
                message: String::new(),
            });
            None
        }
    }
}

/// Returns warnings for overlays, buffers and requests without effect, with the reason from their conditions.
pub(super) fn without_capacity(objects: &Objects, built: &SnapshotResult) -> Vec<String> {
    let overlays = built.overlays.iter().filter_map(|it| Some((&it.overlay, it.error.as_ref()?)));
    let overlays = overlays.map(|(name, trouble)| format!("NodeOverlay {name} is ignored: {trouble}"));
    let buffers = built.buffers.iter().filter_map(|it| Some((&it.buffer, it.resolved.as_ref().err()?)));
    let buffers = buffers.map(|(name, trouble)| format!("CapacityBuffer {name} gets no capacity: {trouble}"));
    let foreign = objects.buffers.iter().filter(|buffer| !buffer.spec.is_active()).map(|buffer| {
        let (namespace, name) = workload::key(&buffer.metadata);
        let strategy = &buffer.spec.provisioning_strategy;
        format!("CapacityBuffer {namespace}/{name} gets no capacity: strategy {strategy} is not supported")
    });
    overlays.chain(buffers).chain(foreign).chain(requests_without_capacity(objects, built)).collect()
}

/// Returns warnings for ProvisioningRequests that cannot be planned, or of which parts have no effect.
fn requests_without_capacity(objects: &Objects, built: &SnapshotResult) -> Vec<String> {
    let unresolved = built.requests.iter().filter_map(|it| Some((&it.request, it.resolved.as_ref().err()?)));
    let unresolved =
        unresolved.map(|(name, trouble)| format!("ProvisioningRequest {name} gets no capacity: {trouble}"));
    let foreign = objects.requests.iter().filter(|request| request.class().is_none()).map(|request| {
        let (namespace, name) = workload::key(&request.metadata);
        let class = &request.spec.provisioning_class_name;
        format!("ProvisioningRequest {namespace}/{name} gets no capacity: class {class} is not supported")
    });
    let ineffective = objects.requests.iter().flat_map(|request| snapshot::ineffective_in_request(request));
    unresolved.chain(foreign).chain(ineffective.map(|problem| problem.to_string())).collect()
}

/// Returns a warning for unhealthy nodes that are not replaced because the feature gate is closed.
pub(super) fn unrepaired(objects: &Objects, built: &SnapshotResult, conditions: &Conditions) -> Option<String> {
    let nodes = built.snapshot.nodes.iter();
    let managed: BTreeSet<&str> =
        nodes.filter(|node| node.claim.is_some() && node.leaving.is_none()).map(|node| node.name.as_str()).collect();
    let due = |node: &&Arc<Node>| {
        let unhealthy = snapshot::unhealthy(node, None).filter(|_| managed.contains(node.name()));
        let is_due = unhealthy.is_some_and(|unhealthy| unhealthy.due.0 <= conditions.now.as_millisecond());
        is_due && !conditions.gates.node_repair.covers(node)
    };
    let mut unhealthy: Vec<&str> = objects.nodes.iter().filter(due).map(|node| node.name()).collect();
    unhealthy.sort_unstable();
    let [first, others @ ..] = unhealthy.as_slice() else { return None };
    let who = match others.len() {
        0 => format!("{first} is"),
        count => format!("{first} and {} are", counted(count, "other")),
    };
    let reason =
        "unhealthy and not repaired: repair requires feature gate NodeRepair=true, except for nodes with Kerf's agent";
    Some(format!("Node {who} {reason}"))
}

/// Binds claims that name an existing volume, as the volume controller does immediately. A claim with the status `Bound` is
/// bound, also in a dump without annotations. A claim with another status was reconciled by the volume controller.
fn claims(objects: &mut Objects) {
    let volumes: BTreeSet<&str> = objects.volumes.iter().map(|volume| volume.name()).collect();
    for claim in &mut objects.volume_claims {
        let names_volume = volumes.contains(claim.spec.volume_name.as_str());
        if ["", BOUND].contains(&claim.status.phase.as_str()) && names_volume {
            let annotations = Arc::make_mut(claim).metadata.annotations.get_or_insert_default();
            annotations.entry(annotation::BIND_COMPLETED.to_owned()).or_insert_with(|| "yes".to_owned());
        }
    }
}

/// Removes overlays that their controller rejected.
fn unready_overlays(objects: &mut Objects) -> Vec<String> {
    let rejection = |overlay: &NodeOverlay| {
        let conditions = overlay.status.as_ref().map_or(&[][..], |status| &status.conditions);
        status::find(conditions, condition::READY).filter(|ready| ready.is_false()).map(|ready| ready.message.clone())
    };
    let warnings = objects.overlays.iter().filter_map(|overlay| {
        let name = overlay.metadata.name.as_deref().unwrap_or_default();
        rejection(overlay).map(|why| format!("NodeOverlay {name} is not Ready and is ignored: {why}"))
    });
    let warnings = warnings.collect();
    objects.overlays.retain(|overlay| rejection(overlay).is_none());
    warnings
}

/// Adds the fields that kubelet and the node controller write: a node that is not ready has a taint that excludes pods.
fn node(node: &mut Node) {
    if node.status.allocatable.is_empty() {
        node.status.allocatable = node.status.capacity.clone();
    }
    if node.status.conditions.is_empty() {
        node.status.conditions.push(NodeCondition {
            type_: condition::READY.to_owned(),
            status: condition::TRUE.to_owned(),
            ..NodeCondition::default()
        });
    }
    let ready = node.status.conditions.iter().find(|it| it.type_ == condition::READY).map(|it| it.status.as_str());
    let missing = match ready {
        Some(condition::TRUE) | None => return,
        Some(condition::FALSE) => Taint::new(taint::NOT_READY, taint::NO_SCHEDULE),
        Some(_) => Taint::new(taint::UNREACHABLE, taint::NO_SCHEDULE),
    };
    if !node.spec.taints.iter().any(|known| known.key == missing.key) {
        node.spec.taints.push(missing);
    }
}

/// Adds a Namespace for every namespace of a pod.
fn namespaces(objects: &mut Objects) {
    let known: BTreeSet<&str> = objects.namespaces.iter().map(|space| space.name()).collect();
    let named: BTreeSet<&str> = objects.pods.iter().map(|pod| pod.namespace()).collect();
    let missing: Vec<String> = named.difference(&known).map(|name| (*name).to_owned()).collect();
    for name in missing {
        let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
        objects.namespaces.push(Arc::new(Namespace { metadata }));
    }
    objects.namespaces.sort_by(|one, other| one.name().cmp(other.name()));
}
