//! Plan after its commands: removed nodes are leaving, and their pods are like pending pods with the places of the commands.
//! The rules for pending pods thus also apply to moved pods.

use std::sync::Arc;

use crate::check::topology;
use crate::{
    CommandReason, Destination, Leaving, Millis, Nomination, PlacementReason, Plan, PlannedCommand, Pod, PodVerdict,
    Relocation, Resources, Snapshot,
};

/// Returns the snapshot and the plan after all commands of the plan. Moved pods come last in the order. If possible,
/// kube-scheduler could bind them in this order after all of their nodes are removed at once.
pub fn carried_out(snapshot: &Snapshot, plan: &Plan) -> (Snapshot, Plan) {
    let (after, mut done) = apply_commands(snapshot, plan);
    if done.report.order.len() > plan.report.order.len() {
        done.report.order = topology::possible(&after, &done, snapshot.pods.len());
    }
    (after, done)
}

/// Returns the same with the moved pods in the order of their commands.
pub(in crate::check) fn apply_commands(snapshot: &Snapshot, plan: &Plan) -> (Snapshot, Plan) {
    let (mut after, mut done) = (snapshot.clone(), plan.clone());
    done.moves.clear();
    for it in &plan.moves {
        leave(&mut after, it);
        strand_buffers(&after, &mut done, it);
        for relocation in &it.pods {
            relocate(&mut after, &mut done, relocation);
        }
        if it.pods.is_empty() && it.reason != CommandReason::Empty {
            strand(&mut after, &mut done, it);
        }
    }
    (after, done)
}

fn leave(after: &mut Snapshot, it: &PlannedCommand) {
    for disrupted in &it.nodes {
        let Some(position) = after.nodes.iter().position(|node| node.name == disrupted.node) else { continue };
        let node = Arc::make_mut(&mut after.nodes[position]);
        node.leaving = Some(Leaving::Deleting);
        let (pool, kind) = (node.pool.clone(), node.instance_type.clone());
        let paid = std::mem::take(&mut node.paid);
        after.release(&paid);
        let Some(pool) = after.pools.iter_mut().find(|it| Some(&it.name) == pool.as_ref()) else { continue };
        pool.running = pool.running.saturating_sub(1);
        // A leaving node of a static NodePool counts for the limits until the node is gone.
        if pool.replicas.is_some() {
            continue;
        }
        let types = after.catalogues.get(pool.catalogue).map_or(&[][..], |it| &it.types);
        if let Some(kind) = types.iter().find(|it| Some(&it.name) == kind.as_ref()) {
            pool.usage.subtract(&kind.capacity);
        }
        pool.usage.subtract(&Resources::from_iter([(Resources::NODES, 1)]));
    }
}

fn relocate(after: &mut Snapshot, done: &mut Plan, it: &Relocation) {
    let is_virtual = |pod: &Pod| pod.holder.is_some() && pod.uid == it.uid;
    let Some(pod) = after.pods.iter().position(is_virtual).or_else(|| take_in(after, &it.from, &it.uid)) else {
        return;
    };
    done.report.order.push(pod);
    done.report.pods.resize(after.pods.len(), PodVerdict::Postponed);
    done.report.pods[pod] = match &it.to {
        Destination::Node(node) => {
            if after.pods[pod].holder.is_none() {
                done.nominations.push(Nomination { pod, node: node.clone() });
            }
            PodVerdict::Existing { node: node.clone(), why: PlacementReason::Room, dropped: Vec::new() }
        }
        Destination::Launch(launch) => {
            if let Some(launch) = done.launches.get_mut(*launch) {
                launch.pods.push(pod);
            }
            PodVerdict::Launch { launch: *launch, why: PlacementReason::Opened, dropped: Vec::new() }
        }
    };
}

/// Removes the places of virtual pods of CapacityBuffers on the nodes of a command.
fn strand_buffers(after: &Snapshot, done: &mut Plan, it: &PlannedCommand) {
    let goes = |name: &str| it.nodes.iter().any(|disrupted| disrupted.node == name);
    for position in (0..after.pods.len()).filter(|position| after.pods[*position].holder.is_some()) {
        if matches!(&done.report.pods[position], PodVerdict::Existing { node, .. } if goes(node)) {
            done.report.pods[position] = PodVerdict::Postponed;
            done.report.order.retain(|it| *it != position);
        }
    }
}

/// Adds pods without a search for places as pending pods.
fn strand(after: &mut Snapshot, done: &mut Plan, it: &PlannedCommand) {
    for disrupted in &it.nodes {
        let Some(node) = after.nodes.iter().find(|node| node.name == disrupted.node).cloned() else { continue };
        for pod in node.pods.iter().filter(|pod| pod.reschedulable) {
            if take_in(after, &node.name, &pod.uid).is_some() {
                done.report.pods.push(PodVerdict::Postponed);
            }
        }
    }
}

/// Converts a running pod into one that needs a place; returns its position.
fn take_in(after: &mut Snapshot, from: &str, uid: &str) -> Option<usize> {
    let node = after.nodes.iter().find(|node| node.name == from)?;
    let pod = node.pods.iter().find(|pod| pod.uid == uid)?.clone();
    let known = after.shapes.iter().position(|shape| **shape == *pod.shape);
    let shape = known.unwrap_or_else(|| {
        after.shapes.push(Arc::clone(&pod.shape));
        after.shapes.len() - 1
    });
    after.pods.push(Pod {
        uid: pod.uid,
        name: pod.name,
        shape,
        created: Millis::default(),
        leaving_node: Some(from.to_owned()),
        claims: pod.claims,
        ..Pod::default()
    });
    Some(after.pods.len() - 1)
}
