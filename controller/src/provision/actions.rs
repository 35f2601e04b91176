//! Consequences of a plan: NodeClaims to create, nominations, commands to begin, and events. Pure.

pub mod observation;
mod pod_events;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::decisions::Decision;
use api::objects::Node;
use api::{NodeClaim, NodePool, RebalanceRisk, annotation, reason};
use planner::{CommandCause, Destination, Plan, PodVerdict, Purpose, Report};
use serde_json::json;
use snapshot::SnapshotResult;

use super::{decision_records, delays, problems};
use crate::provision::nodeclaims;
use crate::reconcile::disruption;
use crate::reconcile::disruption::DisruptionCommand;
use crate::state::attempts::launches::PodGroups;
use crate::state::index::Index;
use crate::write::events::{Event, ObjectReference};
use crate::write::writer::{Operation, Target};
use pod_events::PodEvents;

/// NodeClaim to create.
#[derive(Clone, Debug)]
pub struct PlannedClaim {
    /// The NodeClaim.
    pub claim: NodeClaim,
    /// UIDs of its pods.
    pub pods: Vec<String>,
    /// Its pods by group, virtual pods included.
    pub groups: PodGroups,
    /// Record for the decision log.
    pub record: Decision,
}

/// Consequences of a plan.
#[derive(Debug, Default)]
pub struct PlanActions {
    /// NodeClaims to create.
    pub launches: Vec<PlannedClaim>,
    /// UIDs of pods, by the node that has capacity for them.
    pub nominations: BTreeMap<String, Vec<String>>,
    /// Commands to begin.
    pub orders: Vec<DisruptionCommand>,
    /// Approvals for agents to drain their node.
    pub approvals: Vec<Operation>,
    /// Repairs of the state after a crash between two operations.
    pub repairs: Vec<Operation>,
    /// Events of pods, which come before the others.
    pub pod_events: PodEvents,
    /// Events of other objects.
    pub notes: Vec<Event>,
    /// Numbers of unschedulable pods, by the label of their reason.
    pub unschedulable: BTreeMap<&'static str, u32>,
}

/// Returns the consequences of `plan` in the cluster of `index`. The commands at the positions `begin` are begun. The other
/// commands wait, and so do their replacements.
#[must_use]
pub fn from_plan(index: &Index, built: &SnapshotResult, plan: &Plan, begin: &[usize]) -> PlanActions {
    let mut claims = claims(index, built, plan);
    let name = |claim: &NodeClaim| claim.metadata.name.clone().unwrap_or_default();
    let names: BTreeMap<usize, String> = claims.iter().map(|(position, claim)| (*position, name(claim))).collect();
    let mut outcome = PlanActions { orders: orders(built, plan, begin, &mut claims, &names), ..PlanActions::default() };
    claims.retain(|position, _| plan.launches[*position].purpose != Purpose::Replacement);
    let planned = |(position, claim): (usize, NodeClaim)| PlannedClaim {
        record: decision_records::created(built, &plan.launches[position], &claim),
        claim,
        pods: pods(built, plan, position),
        groups: delays::groups(index, built, &plan.launches[position]),
    };
    outcome.launches = claims.into_iter().map(planned).collect();
    for nomination in &plan.nominations {
        let pod = &built.snapshot.pods[nomination.pod];
        if pod.holder.is_none() {
            outcome.nominations.entry(nomination.node.clone()).or_default().push(pod.uid.clone());
        }
    }
    outcome.unschedulable = unschedulable(index, built, plan);
    outcome.pod_events = PodEvents::new(index, built, names);
    outcome.notes.extend(problems::notes(index, built));
    tell_pools(index, built, plan, &mut outcome);
    outcome.approvals = approvals(index, built, plan);
    let going: BTreeSet<&str> = outcome.orders.iter().flat_map(|order| &order.claims).map(String::as_str).collect();
    outcome.repairs = disruption::stale(index, &going);
    outcome
}

/// Returns the NodeClaim of each launch, by position.
fn claims(index: &Index, built: &SnapshotResult, plan: &Plan) -> BTreeMap<usize, NodeClaim> {
    let claim = |(position, launch): (usize, &planner::Launch)| {
        let pool = index.pools.get(&launch.pool)?;
        let class = index.classes.get(&pool.spec.template.spec.node_class_ref.name)?;
        let timeline = timeline(index, built, launch);
        let origin = nodeclaims::LaunchOrigin {
            plan: built.snapshot.seed,
            position,
            overlaid: built.overlaid.get(&launch.pool),
            timeline: timeline.as_deref(),
        };
        Some((position, nodeclaims::claim(launch, &origin, pool, class)))
    };
    plan.launches.iter().enumerate().filter_map(claim).collect()
}

/// Returns the begin of the timeline of a node for pending pods. It follows the pod that has waited for longest.
fn timeline(index: &Index, built: &SnapshotResult, launch: &planner::Launch) -> Option<String> {
    let pods =
        launch.pods.iter().map(|pod| &built.snapshot.pods[*pod]).filter(|_| launch.purpose == Purpose::Provision);
    let waiting = pods.filter_map(|pod| index.pods.get(&pod.name)).filter(|pod| !pod.is_bound());
    let oldest = waiting.min_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|created| created.0))?;
    api::timeline::of_new_claim(oldest, decision_records::time(built))
}

/// Returns the UIDs of the pods that wait for a launch.
fn pods(built: &SnapshotResult, plan: &Plan, launch: usize) -> Vec<String> {
    let pods = plan.launches[launch].pods.iter().map(|pod| &built.snapshot.pods[*pod]);
    pods.filter(|pod| pod.holder.is_none()).map(|pod| pod.uid.clone()).collect()
}

/// Returns the commands to begin, each with its replacements. A command is omitted if the NodePool or EC2NodeClass of a
/// replacement is gone. Pods of a CapacityBuffer exist only in the planner, so they are not nominated.
fn orders(
    built: &SnapshotResult,
    plan: &Plan,
    begin: &[usize],
    claims: &mut BTreeMap<usize, NodeClaim>,
    names: &BTreeMap<usize, String>,
) -> Vec<DisruptionCommand> {
    let of_buffer = built.snapshot.pods.iter().filter(|pod| pod.holder.is_some()).map(|pod| pod.uid.as_str());
    let virtual_pods: BTreeSet<&str> = of_buffer.collect();
    let order = |planned: &planner::PlannedCommand| {
        let real = planned.pods.iter().filter(|it| !virtual_pods.contains(it.uid.as_str()));
        let place = |it: &planner::Relocation| match &it.to {
            Destination::Node(name) => Some((it.uid.clone(), name.clone())),
            Destination::Launch(launch) => Some((it.uid.clone(), names.get(launch)?.clone())),
        };
        let claims_of = |launch: &usize| Some((&plan.launches[*launch], claims.remove(launch)?));
        let replacements: Vec<(&planner::Launch, NodeClaim)> =
            planned.replacements.iter().map(claims_of).collect::<Option<_>>()?;
        Some(DisruptionCommand {
            records: decision_records::command(built, planned, &replacements),
            reason: planned.reason,
            claims: planned.nodes.iter().map(|leaver| leaver.claim.clone()).collect(),
            unhealthy: match &planned.why {
                CommandCause::Unhealthy { condition } => Some(condition.clone()),
                _ => None,
            },
            replacements: replacements.into_iter().map(|(_, claim)| claim).collect(),
            places: real.filter_map(place).collect(),
        })
    };
    begin.iter().filter_map(|position| plan.moves.get(*position)).filter_map(order).collect()
}

/// Returns the numbers of unschedulable pods that still exist, by the label of their reason. Pods of a CapacityBuffer exist only
/// in the planner.
fn unschedulable(index: &Index, built: &SnapshotResult, plan: &Plan) -> BTreeMap<&'static str, u32> {
    let all = built.snapshot.pods.iter().zip(&plan.report.pods);
    let mut counts = BTreeMap::new();
    for (_, verdict) in all.filter(|(pod, _)| pod.holder.is_none() && index.pods.get(&pod.name).is_some()) {
        if matches!(verdict, PodVerdict::Unschedulable { .. }) {
            *counts.entry(verdict.reason_label().unwrap_or_default()).or_default() += 1;
        }
    }
    counts
}

/// Adds the events of NodePools without an instance type for any pod. Without pending pods there is no event.
fn tell_pools(index: &Index, built: &SnapshotResult, plan: &Plan, outcome: &mut PlanActions) {
    if built.snapshot.pods.is_empty() {
        return;
    }
    let Report { pools_without_types: without, pools_short_of_values: short, .. } = &plan.report;
    let short = short.iter().map(|pool| (pool, " due to minValues incompatibility"));
    for (pool, cause) in without.iter().map(|pool| (pool, "")).chain(short) {
        let Some(pool) = index.pools.get(pool) else { continue };
        let message = format!("NodePool requirements filtered out all compatible available instance types{cause}");
        let pool = ObjectReference::to::<NodePool>(pool.as_ref());
        outcome.notes.push(Event::warning(pool, reason::NO_COMPATIBLE_INSTANCE_TYPES, message));
    }
}

/// Returns approvals for nodes that EC2 recommends to leave. A node is approved once each of its pods that needs another node
/// has one that is initialized. Only then does the agent continue.
fn approvals(index: &Index, built: &SnapshotResult, plan: &Plan) -> Vec<Operation> {
    let is_up = |node: &String| index.nodes.get(node).is_some_and(|node| node.is_initialized());
    let placed: BTreeSet<usize> =
        plan.nominations.iter().filter(|found| is_up(&found.node)).map(|found| found.pod).collect();
    let waits =
        |(position, pod): (usize, &planner::Pod)| pod.leaving_node.clone().filter(|_| !placed.contains(&position));
    let waiting: BTreeSet<String> = built.snapshot.pods.iter().enumerate().filter_map(waits).collect();
    let approve = |node: &Arc<Node>| {
        let claim = index.claim_of(node).map(AsRef::as_ref);
        let risk = RebalanceRisk::requested_replacement(node, claim).filter(|risk| !risk.is_approved(node))?;
        let annotations = json!({annotation::REPLACEMENT_APPROVED: risk.id});
        let patch = json!({"metadata": {"annotations": annotations}});
        (!waiting.contains(node.name())).then(|| Operation::Patch(Target::Node(node.name().to_owned()), patch))
    };
    index.nodes.values().filter_map(approve).collect()
}

#[cfg(test)]
mod tests;
