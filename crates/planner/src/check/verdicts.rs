//! Verdicts: every pod has one verdict and at most one place, and the plan's lists agree with the verdicts.

use std::collections::BTreeMap;

use crate::{Plan, PodVerdict, Snapshot};

use super::Findings;

/// Place that a verdict names.
#[derive(Clone, Copy)]
pub(super) enum AssignedNode<'a> {
    Node(&'a str),
    Launch(usize),
}

pub(super) fn place(verdict: &PodVerdict) -> Option<AssignedNode<'_>> {
    match verdict {
        PodVerdict::Existing { node, .. } => Some(AssignedNode::Node(node)),
        PodVerdict::Launch { launch, .. } => Some(AssignedNode::Launch(*launch)),
        PodVerdict::Unschedulable { .. } | PodVerdict::Postponed => None,
    }
}

pub(super) fn check(snapshot: &Snapshot, plan: &Plan, findings: &mut Findings) {
    let (pods, verdicts) = (snapshot.pods.len(), plan.report.pods.len());
    findings.expect(pods == verdicts, "report", || format!("{verdicts} verdicts for {pods} pods"));
    let mut places: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for nomination in &plan.nominations {
        places.entry(nomination.pod).or_default().push(format!("node {}", nomination.node));
    }
    for (position, launch) in plan.launches.iter().enumerate() {
        for pod in &launch.pods {
            places.entry(*pod).or_default().push(format!("launch {position}"));
        }
    }
    for (pod, there) in &places {
        let name = name(snapshot, *pod);
        findings.expect(*pod < pods, &name, || "is not in the snapshot".to_owned());
        findings.expect(there.len() == 1, &name, || format!("has {} places: {}", there.len(), there.join(", ")));
    }
    for (pod, verdict) in plan.report.pods.iter().enumerate() {
        let there = places.get(&pod).cloned().unwrap_or_default();
        agrees(snapshot, pod, verdict, &there, findings);
    }
    groups(snapshot, plan, findings);
}

/// Checks that no pod group gets fewer places than it needs, apart from none.
fn groups(snapshot: &Snapshot, plan: &Plan, findings: &mut Findings) {
    let mut placed: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for (pod, verdict) in snapshot.pods.iter().zip(&plan.report.pods) {
        let Some(group) = &pod.group else { continue };
        let (count, missing) = placed.entry(&group.name).or_default();
        *count += u32::from(place(verdict).is_some());
        *missing = group.missing();
    }
    for (group, (count, missing)) in placed {
        findings.expect(count == 0 || count >= missing, &format!("pod group {group}"), || {
            format!("gets {count} places and needs {missing}")
        });
    }
}

/// Checks that verdict and lists agree. A CapacityBuffer pod has no nomination, because it is never bound.
fn agrees(snapshot: &Snapshot, pod: usize, verdict: &PodVerdict, there: &[String], findings: &mut Findings) {
    let place = place(verdict);
    let stated: Vec<String> = match place {
        Some(AssignedNode::Node(node)) => vec![format!("node {node}")],
        Some(AssignedNode::Launch(launch)) => vec![format!("launch {launch}")],
        None => Vec::new(),
    };
    let is_buffer = snapshot.pods.get(pod).is_some_and(|it| it.holder.is_some());
    let unstated = is_buffer && there.is_empty() && matches!(place, Some(AssignedNode::Node(_)));
    findings.expect(stated == there || unstated, &name(snapshot, pod), || {
        format!("the verdict says {stated:?}, the plan {there:?}")
    });
    if let Some(AssignedNode::Node(node)) = place {
        let known = snapshot.nodes.iter().any(|it| it.name == node);
        findings.expect(known, &format!("node {node}"), || "is not in the snapshot".to_owned());
    }
}

/// Returns the name of a pod in findings.
pub(super) fn name(snapshot: &Snapshot, pod: usize) -> String {
    snapshot.pods.get(pod).map_or_else(|| format!("pod at {pod}"), |pod| format!("pod {}", pod.name))
}
