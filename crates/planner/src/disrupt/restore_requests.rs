//! Restoration of lowered requests, before pods are placed on the nodes. Requests are restored under pressure, where a pod uses
//! more than before, and where requests are no longer lowered. The result never exceeds the free capacity of the node, because
//! kube-scheduler binds by requests. Without a valid usage report nothing changes, except for the last reason.

use std::collections::BTreeMap;

use crate::{
    BoundPod, ContainerResize, Node, NotResizable, Plan, PodVerdict, Pool, Resize, ResizeReason, Resources, Size,
    Sizing, Snapshot, Utilization, packing,
};

/// Returns all requests to raise, by node.
pub(super) fn restore_requests(snapshot: &Snapshot, plan: &Plan) -> Vec<Resize> {
    let pools: BTreeMap<&str, &Pool> = snapshot.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
    let mut incoming: Option<BTreeMap<&str, Size>> = None;
    let mut all = Vec::new();
    for node in snapshot.nodes.iter().filter(|node| node.leaving.is_none()) {
        let Some(pool) = node.pool.as_deref().and_then(|pool| pools.get(pool)) else { continue };
        let mut requests: Vec<RestoreRequest<'_>> =
            node.pods.iter().filter_map(|pod| restore_request(node, pool, pod)).collect();
        if requests.is_empty() {
            continue;
        }
        let coming = incoming.get_or_insert_with(|| coming(snapshot, plan)).get(node.name.as_str()).copied();
        requests.sort_by_key(|request| (request.why, &request.pod.name, &request.pod.uid));
        let mut free = Size::from_resources(&node.allocatable)
            .minus(Size::from_resources(&node.used))
            .minus(coming.unwrap_or_default());
        for request in requests {
            let to = within(request.sizing, &request.to, free);
            let together = to.iter().fold(Size::default(), |sum, one| sum.plus(*one));
            free = free.minus(request.sizing.gain(together, request.sizing.requests()));
            let rested = packing::rests_until(request.sizing).is_none_or(|until| until <= snapshot.now);
            let marks = (request.why == ResizeReason::Pressure || is_refused(request.sizing)) && rested;
            let changed = resize(node, request.pod, request.sizing, &to, request.why).map(|it| Resize { marks, ..it });
            all.extend(changed.or_else(|| marks.then(|| mark(node, request.pod))));
        }
    }
    all
}

/// Pod that should receive more.
struct RestoreRequest<'a> {
    pod: &'a BoundPod,
    sizing: &'a Sizing,
    why: ResizeReason,
    to: Vec<Size>,
}

fn restore_request<'a>(node: &'a Node, pool: &Pool, pod: &'a BoundPod) -> Option<RestoreRequest<'a>> {
    let sizing = pod.sizing.as_deref().filter(|sizing| !pod.ending && is_lowered(sizing))?;
    let in_full = || sizing.containers.iter().map(|container| container.requests.max(container.requested)).collect();
    let (why, to) = if pool.disruption.utilization != Utilization::Pack || sizing.fixed.is_some() {
        (ResizeReason::Unpacked, in_full())
    } else {
        let usage = node.usage.as_ref()?;
        match usage.pressed.is_some() || sizing.used.is_some_and(|used| used.pressed) {
            true => (ResizeReason::Pressure, in_full()),
            false => (ResizeReason::Grown, packing::grown(sizing, usage, pool.disruption.packing)?),
        }
    };
    Some(RestoreRequest { pod, sizing, why, to })
}

/// Reports whether kubelet will never grant the lowered requests: without a mark the next plan would request the same.
fn is_refused(sizing: &Sizing) -> bool {
    sizing.fixed == Some(NotResizable::Infeasible)
}

fn is_lowered(sizing: &Sizing) -> bool {
    sizing.containers.iter().any(|container| !container.requested.is_within(container.requests))
}

/// Returns the part of the request that fits: of CPU and memory each container's share.
fn within(sizing: &Sizing, to: &[Size], free: Size) -> Vec<Size> {
    let from = sizing.requests();
    let together = to.iter().fold(Size::default(), |sum, one| sum.plus(*one));
    let (asked, more) = (sizing.gain(together, from), together.minus(from));
    let part = |from: i64, to: i64, (asked, free, more): (i64, i64, i64)| match asked <= free {
        true => to,
        false => {
            from + i64::try_from(i128::from(to - from) * i128::from(free.max(0)) / i128::from(more.max(1))).unwrap_or(0)
        }
    };
    let one = |(container, to): (&crate::ContainerSize, &Size)| Size {
        cpu: part(container.requests.cpu, to.cpu, (asked.cpu, free.cpu, more.cpu)),
        memory: part(container.requests.memory, to.memory, (asked.memory, free.memory, more.memory)),
    };
    sizing.containers.iter().zip(to).map(one).collect()
}

/// Returns the change of a pod's requests; `None` where nothing changes.
pub(super) fn resize(node: &Node, pod: &BoundPod, sizing: &Sizing, to: &[Size], why: ResizeReason) -> Option<Resize> {
    let changed = sizing.containers.iter().zip(to).filter(|(container, to)| container.requests != **to);
    let containers = changed.map(|(container, to)| ContainerResize {
        name: container.name.clone(),
        requested: container.requested.max(container.requests),
        from: container.requests,
        to: *to,
    });
    let containers: Vec<ContainerResize> = containers.collect();
    let (uid, name, node) = (pod.uid.clone(), pod.name.clone(), node.name.clone());
    (!containers.is_empty()).then_some(Resize { uid, pod: name, node, containers, why, marks: false })
}

/// Returns a mark for a pod that cannot be restored now: nothing is lowered there meanwhile, and never as far as before.
fn mark(node: &Node, pod: &BoundPod) -> Resize {
    let (uid, name, node) = (pod.uid.clone(), pod.name.clone(), node.name.clone());
    Resize { uid, pod: name, node, containers: Vec::new(), why: ResizeReason::NoRoom, marks: true }
}

/// Returns the requests of pods that the plan assigns to nodes, by node.
fn coming<'a>(snapshot: &'a Snapshot, plan: &Plan) -> BTreeMap<&'a str, Size> {
    let names: BTreeMap<&str, &'a str> =
        snapshot.nodes.iter().map(|node| (node.name.as_str(), node.name.as_str())).collect();
    let mut all: BTreeMap<&'a str, Size> = BTreeMap::new();
    for (pod, verdict) in snapshot.pods.iter().zip(&plan.report.pods) {
        let PodVerdict::Existing { node, .. } = verdict else { continue };
        let Some(node) = names.get(node.as_str()) else { continue };
        let requests: &Resources = &snapshot.shapes[pod.shape].requests;
        let sum = all.entry(node).or_default();
        *sum = sum.plus(Size::from_resources(requests));
    }
    all
}
