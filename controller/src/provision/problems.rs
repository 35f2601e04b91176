//! Events of problems that an owner should repair, reported on the affected object. Decides nothing.

use std::collections::BTreeMap;

use api::objects::{DaemonSet, Node, NodeReport, Pod, PodDisruptionBudget};
use api::{
    CapacityBuffer, Commitment, EC2NodeClass, NodeClaim, NodeOverlay, NodePool, ProvisioningRequest, SpendPolicy,
    reason,
};
use kube::Resource;
use snapshot::{
    Problem, SnapshotResult, Subject, ineffective_in_buffer, ineffective_in_class, ineffective_in_overlay,
    ineffective_in_request,
};

use crate::metrics;
use crate::metrics::gauge_set::Sample;
use crate::state::index::{Index, Key, Table};
use crate::write::events::{Event, ObjectReference};

/// Returns the events of all problems.
#[must_use]
pub fn notes(index: &Index, built: &SnapshotResult) -> Vec<Event> {
    let reported = built.problems.iter().filter(|problem| is_missed(problem, built));
    let of_objects = reported.flat_map(|problem| {
        let objects = problem.about().into_iter().filter_map(|subject| object(index, &subject));
        objects.map(|object| Event::warning(object, problem.reason(), problem.to_string()))
    });
    let of_pods = built.never_evicted.iter().filter_map(|held| {
        let pod = index.pods.get(&held.pod)?;
        let message = format!("Pod can never be evicted, so its node cannot be disrupted: {}", held.why);
        Some(Event::warning(ObjectReference::to::<Pod>(pod.as_ref()), reason::NEVER_EVICTED, message))
    });
    of_objects.chain(of_pods).chain(ineffective(index)).collect()
}

/// Returns the events of EC2NodeClasses, NodeOverlays, CapacityBuffers and ProvisioningRequests with settings without effect. The
/// snapshot knows those of other kinds.
fn ineffective(index: &Index) -> impl Iterator<Item = Event> {
    let classes = index.classes.values().flat_map(|class| {
        let object = ObjectReference::to::<EC2NodeClass>(class.as_ref());
        ineffective_in_class(class, index.is_ec2_emulated).into_iter().map(move |problem| (object.clone(), problem))
    });
    let overlays = index.overlays.values().flat_map(|overlay| {
        let object = ObjectReference::to::<NodeOverlay>(overlay.as_ref());
        ineffective_in_overlay(overlay).into_iter().map(move |problem| (object.clone(), problem))
    });
    let buffers = index.buffers.values().flat_map(|buffer| {
        let object = ObjectReference::to::<CapacityBuffer>(buffer.as_ref());
        ineffective_in_buffer(buffer).into_iter().map(move |problem| (object.clone(), problem))
    });
    let requests = index.requests.values().flat_map(|request| {
        let object = ObjectReference::to::<ProvisioningRequest>(request.as_ref());
        ineffective_in_request(request).into_iter().map(move |problem| (object.clone(), problem))
    });
    classes
        .chain(overlays)
        .chain(buffers)
        .chain(requests)
        .map(|(object, problem)| Event::warning(object, problem.reason(), problem.to_string()))
}

/// Returns the number of pods that can never be evicted, by NodePool.
#[must_use]
pub fn samples(built: &SnapshotResult) -> Vec<Sample> {
    let pools = built.snapshot.pools.iter().map(|pool| (pool.name.as_str(), 0));
    let mut counts: BTreeMap<&str, u32> = pools.collect();
    for held in &built.never_evicted {
        *counts.entry(held.pool.as_deref().unwrap_or_default()).or_default() += 1;
    }
    counts
        .into_iter()
        .map(|(pool, count)| {
            Sample::new(&metrics::NEVER_EVICTED, metrics::ByNodePool { nodepool: pool }, f64::from(count))
        })
        .collect()
}

/// Reports whether a problem needs an event. Missing instance types matter only to pending pods, and load shortly after the
/// start.
fn is_missed(problem: &Problem, built: &SnapshotResult) -> bool {
    !matches!(problem, Problem::NoCatalogue { .. }) || !built.snapshot.pods.is_empty()
}

/// Returns the object, or `None` if it is gone or its kind is not watched.
fn object(index: &Index, subject: &Subject) -> Option<ObjectReference> {
    let name = &subject.name;
    match subject.kind {
        "Pod" => reference::<Pod>(&index.pods, name),
        "Node" => reference::<Node>(&index.nodes, name),
        "NodeClaim" => reference::<NodeClaim>(&index.claims, name),
        "NodePool" => reference::<NodePool>(&index.pools, name),
        "DaemonSet" => reference::<DaemonSet>(&index.daemonsets, name),
        "PodDisruptionBudget" => reference::<PodDisruptionBudget>(&index.budgets, name),
        "Commitment" => reference::<Commitment>(&index.commitments, name),
        "SpendPolicy" => reference::<SpendPolicy>(&index.spend_policies, name),
        "NodeUsage" => reference::<NodeReport>(&index.usages, name),
        _ => None,
    }
}

fn reference<K: Resource<DynamicType = ()>>(table: &Table<K>, name: &Key) -> Option<ObjectReference> {
    table.get(name).map(|object| ObjectReference::to::<K>(object.as_ref()))
}

#[cfg(test)]
mod tests;
