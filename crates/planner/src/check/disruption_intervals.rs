//! A workload that asks to be disturbed but once in a while is: no move that saves money takes a pod of it while it rests, nor while pods
//! of it are moved already.

use std::collections::BTreeSet;

use crate::{BoundPod, CommandReason, Node, Plan, Snapshot};

use super::Findings;

pub(super) fn check(snapshot: &Snapshot, plan: &Plan, findings: &mut Findings) {
    let leaving = snapshot.nodes.iter().filter(|node| node.leaving.is_some());
    let mut disturbed: BTreeSet<&str> =
        leaving.flat_map(|node| workloads(node)).map(|(_, workload)| workload).collect();
    for it in &plan.moves {
        let named = |node: &&Node| it.nodes.iter().any(|leaver| leaver.node == node.name);
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

/// Pods that need another place when the node goes, with their workloads, where these ask for rest.
fn workloads(node: &Node) -> impl Iterator<Item = (&BoundPod, &str)> {
    node.pods.iter().filter(|pod| pod.reschedulable).filter_map(|pod| Some((pod, pod.workload.as_deref()?)))
}
