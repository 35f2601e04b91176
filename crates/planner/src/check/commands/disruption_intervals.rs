//! Minimum intervals between disruptions of a workload: no consolidation command moves its pods within the interval, nor while
//! other pods of it are moved already.

use std::collections::BTreeSet;

use crate::check::Findings;
use crate::{BoundPod, CommandReason, Node, Plan, Snapshot};

pub(super) fn check(snapshot: &Snapshot, plan: &Plan, findings: &mut Findings) {
    let leaving = snapshot.nodes.iter().filter(|node| node.leaving.is_some());
    let mut disturbed: BTreeSet<&str> =
        leaving.flat_map(|node| workloads(node)).map(|(_, workload)| workload).collect();
    for it in &plan.moves {
        let named = |node: &&Node| it.nodes.iter().any(|disrupted| disrupted.node == node.name);
        let nodes = || snapshot.nodes.iter().map(AsRef::as_ref).filter(named);
        if it.reason == CommandReason::Underutilized {
            for (pod, workload) in nodes().flat_map(workloads) {
                let rests = snapshot.resting.get(workload).is_some_and(|until| *until > snapshot.now);
                let fault = || format!("is moved to save money while {workload} rests");
                findings.expect(!rests && !disturbed.contains(workload), &format!("pod {}", pod.name), fault);
            }
        }
        disturbed.extend(nodes().flat_map(workloads).map(|(_, workload)| workload));
    }
}

/// Returns pods that need another place when the node is removed, with their workloads, where these have a minimum interval.
fn workloads(node: &Node) -> impl Iterator<Item = (&BoundPod, &str)> {
    node.pods.iter().filter(|pod| pod.reschedulable).filter_map(|pod| Some((pod, pod.workload.as_deref()?)))
}
