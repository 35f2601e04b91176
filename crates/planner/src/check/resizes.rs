//! Resizes: requests are lowered only on nodes with utilization `Pack` and a known usage, never below the floor. Requests are
//! raised at most to the original ones. On every node the requests of all pods fit, including those that the plan assigns.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{
    BoundPod, ContainerResize, ContainerSize, Destination, Node, NotResizable, Plan, PodVerdict, Pool, Resize,
    ResizeReason, Size, Snapshot, Stage, Utilization,
};

use super::Findings;

pub(super) fn check(snapshot: &Snapshot, plan: &Plan, findings: &mut Findings) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for resize in &plan.resizes {
        let subject = format!("resize of {}", resize.pod);
        *seen.entry(&resize.uid).or_default() += 1;
        let node = snapshot.nodes.iter().find(|node| node.name == resize.node);
        let pod = node.and_then(|node| node.pods.iter().find(|pod| pod.uid == resize.uid));
        match node.zip(pod) {
            None => findings.add(subject, format!("it does not run on {}", resize.node)),
            Some((node, pod)) => {
                stays(node, pod, plan, &subject, findings);
                amounts(pod, resize, &subject, findings);
                findings.expect(remembers(snapshot, node, pod, resize), &subject, || {
                    "remembers that something was short, and nothing was".to_owned()
                });
                if resize.why == ResizeReason::MakesRoom {
                    may_go_down(snapshot, node, pod, resize, &subject, findings);
                }
            }
        }
    }
    for (uid, times) in seen {
        findings.expect(times == 1, &format!("pod {uid}"), || format!("is resized {times} times"));
    }
    fits(snapshot, plan, findings);
}

fn stays(node: &Node, pod: &BoundPod, plan: &Plan, subject: &str, findings: &mut Findings) {
    let goes = plan.moves.iter().flat_map(|it| &it.nodes).any(|leaver| leaver.node == node.name);
    findings.expect(!goes && node.leaving.is_none() && !pod.ending, subject, || "the pod does not stay".to_owned());
}

/// Checks that requests are lowered only to make room, raised only for other reasons, and never exceed the original requests.
fn amounts(pod: &BoundPod, resize: &Resize, subject: &str, findings: &mut Findings) {
    let containers = pod.sizing.as_deref().map_or(&[][..], |sizing| &sizing.containers);
    for it in &resize.containers {
        let own = containers.iter().find(|container| container.name == it.name);
        let known = own.is_some_and(|own| own.requests == it.from && own.requested.max(own.requests) == it.requested);
        findings.expect(known, subject, || format!("container {} requests something else", it.name));
        let (low, high) = if resize.why == ResizeReason::MakesRoom { (it.to, it.from) } else { (it.from, it.to) };
        let right = low != high && low.is_within(high) && it.to.is_within(it.requested);
        findings.expect(right, subject, || format!("{:?}, from {:?} to {:?}", resize.why, it.from, it.to));
    }
    let remembers = resize.why == ResizeReason::NoRoom && resize.marks;
    findings.expect(resize.containers.is_empty() == remembers, subject, || "changes nothing".to_owned());
}

/// Reports whether a mark is justified: the pod was lowered, and its node is under pressure or kubelet cannot apply the
/// requests. The last mark must be at least a day old.
fn remembers(snapshot: &Snapshot, node: &Node, pod: &BoundPod, resize: &Resize) -> bool {
    let Some(sizing) = pod.sizing.as_deref().filter(|_| resize.marks) else { return !resize.marks };
    let is_lowered = sizing.containers.iter().any(|it| !it.requested.is_within(it.requests));
    let is_short = node.usage.is_some_and(|usage| usage.pressed.is_some()) || sizing.used.is_some_and(|it| it.pressed);
    let rested = sizing.given_back.is_none_or(|back| snapshot.now.0 >= back.last.0.saturating_add(86_400_000));
    is_lowered && (is_short || sizing.fixed == Some(NotResizable::Infeasible)) && rested
}

fn may_go_down(
    snapshot: &Snapshot,
    node: &Node,
    pod: &BoundPod,
    resize: &Resize,
    subject: &str,
    findings: &mut Findings,
) {
    let Some(sizing) = pod.sizing.as_deref() else { return };
    let pool = snapshot.pools.iter().find(|pool| Some(&pool.name) == node.pool.as_ref());
    let Some(pool) = pool.filter(|pool| pool.disruption.utilization == Utilization::Pack) else {
        findings.add(subject, "is lowered where the pool does not pack");
        return;
    };
    let rules = pool.disruption.packing;
    let quiet = node
        .pods
        .iter()
        .filter_map(|pod| pod.sizing.as_ref()?.given_back)
        .all(|back| snapshot.now.0 >= back.last.0.saturating_add(86_400_000));
    let rows = [
        (node.claim.is_some() && node.stage == Stage::Initialized, "is lowered on a node that is not ours or not up"),
        (
            node.usage.is_some_and(|usage| usage.pressed.is_none()),
            "is lowered without known utilization, or under pressure",
        ),
        (sizing.fixed.is_none(), "is lowered though its requests are fixed"),
        (sizing.used.is_some_and(|used| used.hours >= rules.history && !used.pressed), "is lowered without a history"),
        (quiet, "is lowered where something was short within a day"),
        (resize.containers.iter().all(|it| is_above_floor(it, pool)), "is lowered under the floor"),
    ];
    for (holds, fault) in rows {
        findings.expect(holds, subject, || fault.to_owned());
    }
}

/// Reports whether each lowered request is above the floor. An unchanged request may be below it, because a NodePool's floor
/// can be raised.
fn is_above_floor(it: &ContainerResize, pool: &Pool) -> bool {
    let left = |from: i64, to: i64, requested: i64| {
        let floor = i128::from(requested) * i128::from(pool.disruption.packing.floor.min(1000));
        to >= from || i128::from(to) * 1000 >= floor
    };
    left(it.from.cpu, it.to.cpu, it.requested.cpu) && left(it.from.memory, it.to.memory, it.requested.memory)
}

/// Checks that raised requests fit beside all present pods and all pods that the plan assigns.
fn fits(snapshot: &Snapshot, plan: &Plan, findings: &mut Findings) {
    for node in &snapshot.nodes {
        let own = plan.resizes.iter().filter(|it| it.node == node.name && it.why != ResizeReason::MakesRoom);
        let more = own.map(|it| growth(node, it)).fold(Size::default(), Size::plus);
        if !more.is_any() {
            continue;
        }
        let mut all = Size::from_resources(&node.used);
        for (pod, verdict) in snapshot.pods.iter().zip(&plan.report.pods) {
            if matches!(verdict, PodVerdict::Existing { node: to, .. } if *to == node.name) {
                all = all.plus(Size::from_resources(&snapshot.shapes[pod.shape].requests));
            }
        }
        let here = Destination::Node(node.name.clone());
        for pod in plan.moves.iter().flat_map(|it| &it.pods).filter(|pod| pod.to == here) {
            let runs = snapshot.nodes.iter().flat_map(|node| &node.pods).find(|it| it.uid == pod.uid);
            all = runs.iter().fold(all, |all, runs| all.plus(Size::from_resources(&runs.shape.requests)));
        }
        let allocatable = Size::from_resources(&node.allocatable);
        let fits = |more: i64, all: i64, allocatable: i64| more <= 0 || all.saturating_add(more) <= allocatable;
        let both = fits(more.cpu, all.cpu, allocatable.cpu) && fits(more.memory, all.memory, allocatable.memory);
        findings
            .expect(both, &format!("node {}", node.name), || format!("has no room for {more:?} that goes up there"));
    }
}

/// Returns how much more of its node a pod takes: the change of its containers together, unless init containers request more.
fn growth(node: &Node, resize: &Resize) -> Size {
    let pod = node.pods.iter().find(|pod| pod.uid == resize.uid);
    let Some(sizing) = pod.and_then(|pod| pod.sizing.as_deref()) else { return Size::default() };
    let to = |container: &ContainerSize| {
        let changed = resize.containers.iter().find(|it| it.name == container.name);
        changed.map_or(container.requests, |it| it.to)
    };
    let sum = |of: &dyn Fn(&ContainerSize) -> Size| {
        sizing.containers.iter().map(of).fold(Size::default(), Size::plus).max(sizing.least)
    };
    sum(&to).minus(sum(&|container| container.requests))
}

/// Returns the snapshot after kubelet has applied all resizes of the plan.
#[must_use]
pub fn resized(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut after = snapshot.clone();
    for resize in &plan.resizes {
        let Some(node) = after.nodes.iter_mut().find(|node| node.name == resize.node) else { continue };
        let node = Arc::make_mut(node);
        let Some(pod) = node.pods.iter_mut().find(|pod| pod.uid == resize.uid) else { continue };
        let Some(sizing) = pod.sizing.as_deref_mut() else { continue };
        let before = sizing.requests();
        for it in &resize.containers {
            if let Some(container) = sizing.containers.iter_mut().find(|container| container.name == it.name) {
                container.requests = it.to;
                container.requested = it.requested;
            }
        }
        if resize.marks {
            let times = sizing.given_back.map_or(0, |back| back.times) + 1;
            sizing.given_back = Some(crate::RestoredRequests { last: snapshot.now, times });
        }
        let less = sizing.gain(before, sizing.requests());
        node.used.subtract(&less.resources());
    }
    after
}
