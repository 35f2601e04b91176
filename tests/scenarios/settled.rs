//! Cluster a few minutes after its plan. Every NodeClaim is a node of its cheapest type, placed pods are bound, nodes of
//! commands are removed, and resized pods have their new requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use planner::{BoundPod, Millis, Node, Plan, Pod, PodGroup, Size, Snapshot, Stage, label};

use crate::applied::{Bought, account, draw, share_commitments, spend_budgets};

/// Returns the snapshot of that moment. Pods of CapacityBuffers are never bound and remain pending.
pub fn to(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let (mut after, done) = planner::carried_out(&planner::resized(snapshot, plan), plan);
    let (snapshot, plan) = (&after.clone(), &Plan { moves: plan.moves.clone(), ..done });
    let workloads = workloads(snapshot);
    spend_budgets(&mut after, plan);
    after.nodes.retain(|node| plan.moves.iter().flat_map(|it| &it.nodes).all(|leaver| leaver.node != node.name));
    let mut places: Vec<Option<String>> = vec![None; snapshot.pods.len()];
    for nomination in &plan.nominations {
        places[nomination.pod] = Some(nomination.node.clone());
    }
    for (position, launch) in plan.launches.iter().enumerate() {
        let bought = Bought::of(snapshot, launch);
        let node = node(&bought, &format!("node-{position}"), snapshot);
        launch.pods.iter().for_each(|pod| places[*pod] = Some(node.name.clone()));
        account(&mut after, launch, &bought.kind.capacity.clone());
        draw(&mut after, bought.reservation());
        after.nodes.push(Arc::new(node));
    }
    share_commitments(&mut after);
    let real = |pod: &Pod| pod.holder.is_none();
    for (pod, place) in snapshot.pods.iter().zip(&places) {
        match place {
            Some(node) if real(pod) => bind(&mut after, pod, node, workloads.get(&pod.uid)),
            _ => {}
        }
    }
    after.pods = Vec::new();
    let bound = |group: &PodGroup| {
        let own = |pod: &Pod| pod.group.as_ref().is_some_and(|it| it.name == group.name);
        snapshot.pods.iter().zip(&places).filter(|(pod, place)| place.is_some() && own(pod)).count()
    };
    for (pod, place) in snapshot.pods.iter().zip(&places).filter(|(pod, place)| place.is_none() || !real(pod)) {
        let group = pod.group.as_ref().map(|group| {
            let running = group.running + u32::try_from(bound(group)).unwrap_or(u32::MAX);
            Arc::new(PodGroup { running, ..PodGroup::clone(group) })
        });
        after.pods.push(Pod { nominated: place.clone(), group, ..pod.clone() });
    }
    after
}

fn node(bought: &Bought<'_>, name: &str, snapshot: &Snapshot) -> Node {
    let mut node = Node { claim: Some(format!("{name}-claim")), stage: Stage::Initialized, ..bought.claim(name) };
    node.requirements = Vec::new();
    (node.created, node.healthy_since, node.quiet_since) = (snapshot.now, Some(snapshot.now), Some(snapshot.now));
    node.labels.insert(label::HOSTNAME.to_owned(), name.to_owned());
    node.labels.insert(label::INSTANCE_TYPE.to_owned(), bought.kind.name.clone());
    let single = bought.kind.labels.iter().filter(|(_, values)| values.len() == 1);
    node.labels.extend(single.map(|(key, values)| (key.clone(), values[0].clone())));
    if let Some(offering) = bought.offering {
        node.labels.insert(label::ZONE.to_owned(), offering.zone.clone());
        node.labels.insert(label::CAPACITY_TYPE.to_owned(), offering.capacity_type.as_str().to_owned());
        node.labels.extend(offering.labels.clone());
    }
    node
}

/// Returns the workloads with `kerf.sh/disrupt-at-most-once-per`, by the UIDs of their pods.
fn workloads(snapshot: &Snapshot) -> BTreeMap<String, Arc<str>> {
    let pods = snapshot.nodes.iter().flat_map(|node| &node.pods);
    pods.filter_map(|pod| Some((pod.uid.clone(), pod.workload.clone()?))).collect()
}

/// Binds a pod to that node and removes it from the node that it left. Its workload may not be disrupted for an hour if it has
/// `kerf.sh/disrupt-at-most-once-per`.
fn bind(after: &mut Snapshot, pod: &Pod, node: &str, workload: Option<&Arc<str>>) {
    if let Some(workload) = workload {
        after.resting.insert(workload.to_string(), Millis(after.now.0 + 3_600_000));
    }
    let shape = Arc::clone(&after.shapes[pod.shape]);
    if let Some(left) = after.nodes.iter_mut().find(|it| Some(&it.name) == pod.leaving_node.as_ref()) {
        let left = Arc::make_mut(left);
        left.pods.retain(|it| it.uid != pod.uid);
        left.used.subtract(&shape.requests);
    }
    let node = Arc::make_mut(after.nodes.iter_mut().find(|it| it.name == node).unwrap());
    node.used.add(&shape.requests);
    if let Some(usage) = &mut node.usage {
        usage.newcomers = usage.newcomers.plus(Size::from_resources(&shape.requests));
    }
    node.pods.push(BoundPod {
        uid: pod.uid.clone(),
        name: pod.name.clone(),
        reschedulable: true,
        shape,
        claims: pod.claims.clone(),
        mix: pod.mix.clone(),
        workload: workload.cloned(),
        ..BoundPod::default()
    });
}
