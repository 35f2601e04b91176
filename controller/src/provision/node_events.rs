//! Events and metrics of nodes that are not disrupted, and of nodes that could be. Decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use api::objects::Node;
use api::{NodeClaim, NodePool, reason};
use daemon::metric::{Metrics, NoLabels};
use parking_lot::Mutex;
use planner::{CommandReason, NodeVerdict, Plan, Snapshot, Stage, ValidatedCommands};
use snapshot::SnapshotResult;

use super::problems;
use crate::metrics;
use crate::metrics::gauge_set::{GaugeSet, Sample};
use crate::reconcile::disruption::{named, said_of};
use crate::state::cluster::Cluster;
use crate::state::index::Index;
use crate::state::plans::pod_decisions::by_zone;
use crate::state::plans::progress::PROVISIONER;
use crate::write::events::{Event, ObjectReference};

/// Reasons that budgets may name.
const BUDGETED: [CommandReason; 3] = [CommandReason::Empty, CommandReason::Underutilized, CommandReason::Drifted];

/// Returns the events of nodes: consolidation candidates, candidates that were rejected, and the reason for each other node.
#[must_use]
pub fn notes(index: &Index, plan: &Plan, ripe: &ValidatedCommands) -> Vec<Event> {
    let verdicts: BTreeMap<&str, &NodeVerdict> =
        plan.report.nodes.iter().map(|(name, verdict)| (name.as_str(), verdict)).collect();
    let mut notes = Vec::new();
    for planned in ripe.candidates.iter().filter_map(|position| plan.moves.get(*position)) {
        let nodes: Vec<String> = planned.nodes.iter().map(|leaver| leaver.node.clone()).collect();
        let message = format!("Consolidation candidate: {} ({})", named(&nodes), planned.reason);
        nodes.iter().for_each(|node| notes.extend(of_node(index, node, reason::CONSOLIDATION_CANDIDATE, &message)));
    }
    for node in ripe.dropped.iter().flat_map(|dropped| &dropped.nodes) {
        let said = verdicts.get(node.as_str()).map(ToString::to_string);
        let message =
            format!("This node {}", said.unwrap_or_else(|| "is no longer a consolidation candidate".to_owned()));
        notes.extend(of_node(index, node, reason::CONSOLIDATION_REJECTED, &message));
    }
    for (name, verdict) in &plan.report.nodes {
        if let Some((reason, message)) = said(index, name, verdict) {
            notes.extend(of_node(index, name, reason, &message));
        }
    }
    notes.extend(blocked_pools(index, plan));
    notes.extend(blocked_repairs(index, plan));
    notes
}

/// Returns reason and message of a verdict. Only stable verdicts have an event: a node inside `consolidateAfter` has none.
pub(super) fn said(index: &Index, name: &str, verdict: &NodeVerdict) -> Option<(&'static str, String)> {
    let sentence = || format!("This node {verdict}");
    match verdict {
        NodeVerdict::DoNotDisrupt
        | NodeVerdict::PodDoNotDisrupt { .. }
        | NodeVerdict::PodHeld { .. }
        | NodeVerdict::NoReplica
        | NodeVerdict::CanaryUnhealthy { .. }
        | NodeVerdict::AwaitsReplacement { claim: Some(_), .. }
        | NodeVerdict::NoPool => Some((reason::DISRUPTION_BLOCKED, sentence())),
        // The remaining time would make each event a new one.
        NodeVerdict::ReplacementsFail { pool, failures, .. } => {
            let last = planner::last_attempts(*failures, ["replacement", "replacements"]);
            let message = format!("This node stays: {last} failed in NodePool {pool}");
            Some((reason::DISRUPTION_BLOCKED, message))
        }
        // For the same reason without numbers.
        NodeVerdict::AwaitsCanary { pool, .. } => {
            let message = format!("This node stays: drifted, but the canary nodes of NodePool {pool} come first");
            Some((reason::DISRUPTION_BLOCKED, message))
        }
        // Users search for this message of Karpenter.
        NodeVerdict::Cheapest { .. } => {
            Some((reason::UNCONSOLIDATABLE, "Can't replace with a cheaper node".to_owned()))
        }
        NodeVerdict::ConsolidationDisabled => {
            let pool = pool(index, name).unwrap_or_default();
            Some((reason::UNCONSOLIDATABLE, format!("NodePool {pool:?} has consolidation disabled")))
        }
        NodeVerdict::NoPlace { .. }
        | NodeVerdict::AboveCeiling { .. }
        | NodeVerdict::CheaperIsBusy { .. }
        | NodeVerdict::NotWorthIt { .. }
        | NodeVerdict::Paid { .. }
        | NodeVerdict::Scattered { .. }
        | NodeVerdict::SpotToSpot { .. }
        | NodeVerdict::Unbalanced { .. }
        | NodeVerdict::InUse { .. }
        | NodeVerdict::HoldsCapacity { .. }
        | NodeVerdict::UnknownPrice
        | NodeVerdict::Busy { .. } => Some((reason::UNCONSOLIDATABLE, sentence())),
        NodeVerdict::Remove(_)
        | NodeVerdict::Leaving
        | NodeVerdict::Rebooting
        | NodeVerdict::NotInitialized
        | NodeVerdict::Nominated
        | NodeVerdict::Watched
        | NodeVerdict::Quiet { .. }
        | NodeVerdict::Static
        | NodeVerdict::ByTurns { .. }
        | NodeVerdict::RoomSoon { .. }
        | NodeVerdict::RemovedTogether { .. }
        | NodeVerdict::Resting { .. }
        | NodeVerdict::Disturbed { .. }
        | NodeVerdict::AfterResize { .. }
        | NodeVerdict::AfterMove { .. }
        | NodeVerdict::AwaitsReplacement { claim: None, .. }
        | NodeVerdict::LeftOut { .. }
        | NodeVerdict::Budget { .. }
        | NodeVerdict::ManyUnhealthy { .. }
        | NodeVerdict::Postponed => None,
    }
}

/// Returns the events of NodePools whose budgets block nodes.
fn blocked_pools(index: &Index, plan: &Plan) -> Vec<Event> {
    let held = plan.report.nodes.iter().filter_map(|(name, verdict)| match verdict {
        NodeVerdict::Budget { reason } => Some((pool(index, name)?, *reason)),
        _ => None,
    });
    let held: BTreeSet<(&str, CommandReason)> = held.collect();
    let note = |(pool, why): (&str, CommandReason)| {
        let pool = ObjectReference::to::<NodePool>(index.pools.get(pool)?.as_ref());
        let message = format!("No allowed disruptions for disruption reason {why} due to blocking budget");
        Some(Event::normal(pool, reason::DISRUPTION_BLOCKED, message))
    };
    held.into_iter().filter_map(note).collect()
}

/// Returns the events of unhealthy nodes whose repair is suspended, because too many nodes of their NodePool are unhealthy. The
/// node, its NodeClaim and the NodePool have an event each.
fn blocked_repairs(index: &Index, plan: &Plan) -> Vec<Event> {
    let many = |(name, verdict): &(String, NodeVerdict)| match verdict {
        NodeVerdict::ManyUnhealthy { unhealthy, nodes } => Some((index.nodes.get(name)?, *unhealthy, *nodes)),
        _ => None,
    };
    let mut notes = BTreeSet::new();
    for (node, unhealthy, nodes) in plan.report.nodes.iter().filter_map(many) {
        let pool = node.label(api::label::NODEPOOL).and_then(|pool| index.pools.get(pool));
        let objects = [
            Some(ObjectReference::to::<Node>(node.as_ref())),
            index.claim_of(node).map(|claim| ObjectReference::to::<NodeClaim>(claim.as_ref())),
            pool.map(|pool| ObjectReference::to::<NodePool>(pool.as_ref())),
        ];
        let message = format!(
            "More than 20% nodes are unhealthy in the nodepool ({unhealthy} of {nodes}): repair is suspended; look for \
             a common cause, and delete NodeClaims that should be replaced anyway"
        );
        let note = |object| Event::warning(object, reason::NODE_REPAIR_BLOCKED, message.clone());
        notes.extend(objects.into_iter().flatten().map(note));
    }
    notes.into_iter().collect()
}

fn pool<'a>(index: &'a Index, node: &str) -> Option<&'a str> {
    index.nodes.get(node)?.label(api::label::NODEPOOL)
}

fn of_node(index: &Index, name: &str, reason: &'static str, message: &str) -> Vec<Event> {
    let Some(node) = index.nodes.get(name) else { return Vec::new() };
    match index.claim_of(node) {
        Some(claim) => said_of(claim, Some(node.as_ref()), reason, message),
        None => vec![Event::normal(ObjectReference::to::<Node>(node.as_ref()), reason, message.to_owned())],
    }
}

/// Gauges by NodePool, and the NodePools that they include.
#[derive(Debug, Default)]
pub struct NodeGauges {
    pools: Mutex<BTreeSet<String>>,
    zones: GaugeSet,
    held: GaugeSet,
    coverage: GaugeSet,
}

impl NodeGauges {
    /// Sets the numbers of disruptable nodes and allowed disruptions. The gauges of deleted NodePools are removed.
    pub fn set(&self, metrics: &Metrics, built: &SnapshotResult, plan: &Plan, cluster: &Cluster) {
        for (reason, count) in eligible(plan) {
            metrics.set(
                &metrics::ELIGIBLE_NODES,
                metrics::ByReason { reason: &reason.as_str().to_lowercase() },
                f64::from(count),
            );
        }
        let zones = by_zone(&built.snapshot).into_iter();
        let zones = zones.map(|(zone, pods)| {
            let labels = metrics::ByControllerZone { controller: PROVISIONER.controller, zone: &zone };
            Sample::new(&metrics::PENDING_BY_ZONE, labels, f64::from(pods))
        });
        self.zones.replace(metrics, zones.collect());
        self.held.replace(metrics, problems::samples(built));
        self.coverage.replace(metrics, coverage(&built.snapshot).into_iter().collect());
        if plan.report.nodes.iter().any(|(_, verdict)| matches!(verdict, NodeVerdict::Postponed)) {
            metrics.add(
                &metrics::CONSOLIDATION_TIMEOUTS,
                metrics::ByConsolidationType { consolidation_type: "multi" },
                1.0,
            );
        }
        let consuming = cluster.read(|index| consuming(index, built));
        let present: BTreeSet<String> = built.snapshot.pools.iter().map(|pool| pool.name.clone()).collect();
        let former = std::mem::replace(&mut *self.pools.lock(), present.clone());
        for pool in former.difference(&present) {
            for reason in BUDGETED {
                metrics.forget(
                    &metrics::ALLOWED_DISRUPTIONS
                        .series(&metrics::ByNodePoolReason { nodepool: pool, reason: reason.as_str() }),
                );
                metrics.forget(
                    &metrics::CONSUMING_BUDGETS
                        .series(&metrics::ByNodePoolReason { nodepool: pool, reason: reason.as_str() }),
                );
            }
        }
        let canaries = planner::allowed_by_canaries(&built.snapshot);
        for pool in &built.snapshot.pools {
            let budgets = pool.disruption.budgets;
            let drifted =
                canaries.get(pool.name.as_str()).map_or(budgets.drifted, |canary| budgets.drifted.min(*canary));
            let allowed = [budgets.empty, budgets.underutilized, drifted];
            let consuming = consuming.get(pool.name.as_str()).copied().unwrap_or_default();
            for (reason, allowed) in BUDGETED.into_iter().zip(allowed) {
                metrics.set(
                    &metrics::ALLOWED_DISRUPTIONS,
                    metrics::ByNodePoolReason { nodepool: &pool.name, reason: reason.as_str() },
                    f64::from(allowed),
                );
                metrics.set(
                    &metrics::CONSUMING_BUDGETS,
                    metrics::ByNodePoolReason { nodepool: &pool.name, reason: reason.as_str() },
                    f64::from(consuming),
                );
            }
        }
    }
}

/// Returns the part of the price of on-demand nodes for which Commitments pay.
fn coverage(snapshot: &Snapshot) -> Option<Sample> {
    let cost = snapshot.on_demand_cost();
    let has_both = !snapshot.commitments.is_empty() && cost.price.0 > 0;
    has_both.then(|| Sample::new(&metrics::COMMITMENT_COVERAGE, NoLabels, cost.paid.0 as f64 / cost.price.0 as f64))
}

/// Counts nodes that are removed, or that only a budget, a canary or a fault of the plan blocks, by reason.
fn eligible(plan: &Plan) -> BTreeMap<CommandReason, u32> {
    let mut counts: BTreeMap<CommandReason, u32> = BUDGETED.into_iter().map(|reason| (reason, 0)).collect();
    for (_, verdict) in &plan.report.nodes {
        let reason = match verdict {
            NodeVerdict::Remove(reason) | NodeVerdict::Budget { reason } | NodeVerdict::LeftOut { reason, .. } => {
                *reason
            }
            NodeVerdict::AwaitsCanary { .. } | NodeVerdict::CanaryUnhealthy { .. } => CommandReason::Drifted,
            _ => continue,
        };
        *counts.entry(reason).or_default() += 1;
    }
    counts
}

/// Counts nodes that are being removed or are not ready, by NodePool.
fn consuming<'a>(index: &Index, built: &'a SnapshotResult) -> BTreeMap<&'a str, u32> {
    let ready = |name: &str| index.nodes.get(name).is_some_and(|node| node.is_ready());
    let mut counts = BTreeMap::new();
    let managed = built.snapshot.nodes.iter().filter(|node| node.claim.is_some() && node.stage == Stage::Initialized);
    for node in managed.filter(|node| node.leaving.is_some() || !ready(&node.name)) {
        *counts.entry(node.pool.as_deref().unwrap_or_default()).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests;
