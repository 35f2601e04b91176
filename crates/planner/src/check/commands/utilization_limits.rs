//! Utilization limits: no command that saves money removes a busy node or makes one busy, by measured usage. Pods without a
//! measurement count with their requests.

use std::collections::BTreeMap;

use crate::check::Findings;
use crate::{
    BoundPod, CommandReason, Destination, Node, Plan, PlannedCommand, PodVerdict, Relocation, Resources, Size,
    Snapshot, Utilization,
};

pub(super) fn check(snapshot: &Snapshot, plan: &Plan, findings: &mut Findings) {
    let limited = |node: &&Node| {
        let pool = snapshot.pools.iter().find(|pool| Some(&pool.name) == node.pool.as_ref());
        node.usage.is_some() && pool.is_some_and(|pool| pool.disruption.utilization != Utilization::Ignore)
    };
    let limited: BTreeMap<&str, &Node> =
        snapshot.nodes.iter().map(AsRef::as_ref).filter(limited).map(|node| (node.name.as_str(), node)).collect();
    let runs: BTreeMap<&str, &BoundPod> =
        snapshot.nodes.iter().flat_map(|node| &node.pods).map(|pod| (pod.uid.as_str(), pod)).collect();
    let mut sums = planned(snapshot, plan, &runs);
    for it in &plan.moves {
        for relocation in &it.pods {
            if let (Destination::Node(name), Some(pod)) = (&relocation.to, runs.get(relocation.uid.as_str())) {
                let sum = sums.entry(name).or_default();
                *sum = sum.plus(used_by(pod));
            }
        }
        if it.reason == CommandReason::Underutilized {
            saves(it, &limited, &sums, findings);
            launched(snapshot, plan, it, &runs, findings);
        }
    }
}

/// Returns the usage of pods that the plan assigns to nodes, by node.
fn planned<'a>(snapshot: &Snapshot, plan: &'a Plan, runs: &BTreeMap<&str, &BoundPod>) -> BTreeMap<&'a str, Size> {
    let mut sums: BTreeMap<&str, Size> = BTreeMap::new();
    for (pod, verdict) in snapshot.pods.iter().zip(&plan.report.pods) {
        let PodVerdict::Existing { node, .. } = verdict else { continue };
        let requests =
            || snapshot.shapes.get(pod.shape).map_or(Size::default(), |shape| Size::from_resources(&shape.requests));
        let used = runs.get(pod.uid.as_str()).map_or_else(requests, |pod| used_by(pod));
        let sum = sums.entry(node).or_default();
        *sum = sum.plus(if pod.holder.is_some() { Size::default() } else { used });
    }
    sums
}

fn used_by(pod: &BoundPod) -> Size {
    pod.used.unwrap_or(Size::from_resources(&pod.shape.requests))
}

fn saves(it: &PlannedCommand, limited: &BTreeMap<&str, &Node>, sums: &BTreeMap<&str, Size>, findings: &mut Findings) {
    for node in it.nodes.iter().filter_map(|disrupted| limited.get(disrupted.node.as_str())) {
        let usage = node.usage.unwrap_or_default();
        let busy =
            usage.pressed.is_some() || is_reached(Size { cpu: usage.cpu, memory: usage.memory }, &node.allocatable);
        findings.expect(!busy, &format!("node {}", node.name), || "is busy and goes to save money".to_owned());
    }
    let to = |pod: &Relocation| match &pod.to {
        Destination::Node(name) => Some(name.clone()),
        Destination::Launch(_) => None,
    };
    for name in it.pods.iter().filter_map(to) {
        let Some(node) = limited.get(name.as_str()) else { continue };
        let usage = node.usage.unwrap_or_default();
        let sum = sums.get(name.as_str()).copied().unwrap_or_default().plus(usage.newcomers);
        let all = Size { cpu: usage.cpu, memory: usage.memory }.plus(sum);
        findings.expect(
            usage.pressed.is_none() && !is_reached(all, &node.allocatable),
            &format!("node {name}"),
            || format!("gets pods to save money with which {all:?} of it are in use"),
        );
    }
}

/// Checks that no new node is overloaded by the measured usage of its pods, with any of its types.
fn launched(
    snapshot: &Snapshot,
    plan: &Plan,
    it: &PlannedCommand,
    runs: &BTreeMap<&str, &BoundPod>,
    findings: &mut Findings,
) {
    for position in &it.replacements {
        let Some(launch) = plan.launches.get(*position) else { continue };
        let pool = snapshot.pools.iter().find(|pool| pool.name == launch.pool);
        let Some(pool) = pool.filter(|pool| pool.disruption.utilization != Utilization::Ignore) else { continue };
        let own = it.pods.iter().filter(|pod| pod.to == Destination::Launch(*position));
        let measured = own.filter_map(|pod| runs.get(pod.uid.as_str())?.used).fold(Size::default(), Size::plus);
        let types = snapshot.catalogues.get(pool.catalogue).map_or(&[][..], |it| &it.types);
        for kind in types.iter().filter(|kind| launch.instance_types.contains(&kind.name)) {
            findings.expect(!is_reached(measured, &kind.allocatable), &format!("launch {position}"), || {
                format!("would be busy as {} with {measured:?}", kind.name)
            });
        }
    }
}

/// Reports whether the usage reaches four fifths of a node's CPU or memory.
fn is_reached(used: Size, allocatable: &Resources) -> bool {
    let allocatable = Size::from_resources(allocatable);
    let reached = |used: i64, allocatable: i64| i128::from(used) * 5 >= i128::from(allocatable) * 4;
    reached(used.cpu, allocatable.cpu) || reached(used.memory, allocatable.memory)
}
