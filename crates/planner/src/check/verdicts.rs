//! Every pod has one verdict and at most one place, and the plan's lists agree with the verdicts.

use std::collections::BTreeMap;

use crate::{Plan, PodVerdict, Snapshot};

use super::Findings;

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
        let said: Vec<String> = match verdict {
            PodVerdict::Existing { node } => vec![format!("node {node}")],
            PodVerdict::Launch { launch } => vec![format!("launch {launch}")],
            PodVerdict::Unschedulable { .. } | PodVerdict::Postponed => Vec::new(),
        };
        let there = places.get(&pod).cloned().unwrap_or_default();
        findings
            .expect(said == there, &name(snapshot, pod), || format!("the verdict says {said:?}, the plan {there:?}"));
    }
}

/// How findings call a pod.
pub(super) fn name(snapshot: &Snapshot, pod: usize) -> String {
    snapshot.pods.get(pod).map_or_else(|| format!("pod at {pod}"), |pod| format!("pod {}", pod.name))
}
