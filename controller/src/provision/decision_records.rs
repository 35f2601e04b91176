//! Records of a plan's decisions for the decision log: launches, commands, and verdicts that are news. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{Discriminant, discriminant};

use api::NodeClaim;
use api::decisions::{Decision, DecisionKind};
use jiff::{SignedDuration, Timestamp};
use planner::{Launch, Node, NodeVerdict, Plan, PlannedCommand, PodVerdict, Purpose};
use snapshot::SnapshotResult;

use super::node_events;
use crate::state::index::Index;

/// Least time between two records about the same node: its verdicts may alternate.
const PAUSE: SignedDuration = SignedDuration::from_mins(15);

/// Returns the time of a plan.
pub(super) fn time(built: &SnapshotResult) -> Timestamp {
    Timestamp::from_millisecond(built.snapshot.now.0).unwrap_or_default()
}

/// Returns the cost of a node beside its instance, which the savings of commands contain too.
fn fee(built: &SnapshotResult, node: &Node) -> i64 {
    let own = built.snapshot.pools.iter().find(|pool| Some(&pool.name) == node.pool.as_ref());
    own.map_or(0, |pool| pool.node_fee.0)
}

fn reason(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Provision => "pending pods",
        Purpose::Static => "static NodePool",
        Purpose::Replacement => "replacement",
    }
}

/// Returns the record of a created NodeClaim.
#[must_use]
pub fn created(built: &SnapshotResult, launch: &Launch, claim: &NodeClaim) -> Decision {
    let pods = launch.pods.iter().map(|pod| &built.snapshot.pods[*pod]);
    Decision {
        nodepools: [launch.pool.as_str()].into_iter().collect(),
        nodeclaims: claim.metadata.name.iter().cloned().collect(),
        pods: pods.filter(|pod| pod.holder.is_none()).map(|pod| pod.name.as_str()).collect(),
        instance_types: launch.instance_types.iter().cloned().collect(),
        price_per_hour: Some(launch.price.0),
        ..Decision::new(time(built), DecisionKind::Created, reason(launch.purpose))
    }
}

/// Returns the record of a command that starts with these replacements, then the record of each replacement.
#[must_use]
pub fn command(
    built: &SnapshotResult,
    planned: &PlannedCommand,
    replacements: &[(&Launch, NodeClaim)],
) -> Vec<Decision> {
    let command = disrupting(built, planned, replacements);
    std::iter::once(command).chain(replacements.iter().map(|(launch, claim)| created(built, launch, claim))).collect()
}

fn disrupting(built: &SnapshotResult, planned: &PlannedCommand, replacements: &[(&Launch, NodeClaim)]) -> Decision {
    let find = |name: &str| built.snapshot.nodes.iter().find(|node| node.name == name);
    let nodes = || planned.nodes.iter().filter_map(|leaver| find(&leaver.node));
    let pools: BTreeSet<&str> = nodes().filter_map(|node| node.pool.as_deref()).collect();
    Decision {
        message: planned.why.to_string(),
        nodepools: pools.into_iter().collect(),
        nodeclaims: planned.nodes.iter().map(|leaver| leaver.claim.as_str()).collect(),
        nodes: planned.nodes.iter().map(|leaver| leaver.node.as_str()).collect(),
        pods: planned.pods.iter().map(|moved| moved.pod.as_str()).collect(),
        replacements: replacements.iter().filter_map(|(_, claim)| claim.metadata.name.clone()).collect(),
        price_per_hour: nodes().map(|node| Some(node.price?.0 + fee(built, node))).sum(),
        saving_per_hour: planned.saving.map(|saving| saving.0),
        ..Decision::new(time(built), DecisionKind::Disrupting, planned.reason.as_str())
    }
}

/// Verdicts of the last records. Only news is recorded.
#[derive(Debug, Default)]
pub struct RecordedVerdicts {
    /// Reasons by the UID of a pod.
    unschedulable: BTreeMap<String, &'static str>,
    /// Kind of the verdict, and time of its record, by node.
    kept: BTreeMap<String, (Discriminant<NodeVerdict>, Timestamp)>,
}

impl RecordedVerdicts {
    /// Returns the records of pods that are unschedulable for a new reason, and of nodes that stay for a new reason. Objects with
    /// the same sentence share a record.
    pub fn news(&mut self, index: &Index, built: &SnapshotResult, plan: &Plan) -> Vec<Decision> {
        let now = time(built);
        let mut records = self.refused_pods(built, plan, now);
        records.extend(self.kept_nodes(index, plan, now));
        records
    }

    fn refused_pods(&mut self, built: &SnapshotResult, plan: &Plan, now: Timestamp) -> Vec<Decision> {
        let mut present = BTreeMap::new();
        let mut news: BTreeMap<(&'static str, String), Vec<&str>> = BTreeMap::new();
        let waiting = built.snapshot.pods.iter().zip(&plan.report.pods);
        for (pod, verdict) in waiting.filter(|(pod, _)| pod.holder.is_none()) {
            let known = self.unschedulable.get(&pod.uid).copied();
            let reason = match verdict {
                PodVerdict::Postponed => known,
                verdict => verdict.reason_label(),
            };
            let Some(reason) = reason else { continue };
            if known != Some(reason) {
                news.entry((reason, verdict.to_string())).or_default().push(&pod.name);
            }
            present.insert(pod.uid.clone(), reason);
        }
        self.unschedulable = present;
        let record = |((reason, message), pods): ((&str, String), Vec<&str>)| Decision {
            message,
            pods: pods.into_iter().collect(),
            ..Decision::new(now, DecisionKind::Unschedulable, reason)
        };
        news.into_iter().map(record).collect()
    }

    fn kept_nodes(&mut self, index: &Index, plan: &Plan, now: Timestamp) -> Vec<Decision> {
        let mut present = BTreeMap::new();
        let mut news: BTreeMap<(&'static str, String), Vec<&str>> = BTreeMap::new();
        for (node, verdict) in &plan.report.nodes {
            let known = self.kept.get(node).copied();
            let kind = discriminant(verdict);
            let is_old = known.is_some_and(|(last, at)| last == kind || now.duration_since(at) < PAUSE);
            match (!is_old).then(|| node_events::said(index, node, verdict)).flatten() {
                Some(said) => {
                    news.entry(said).or_default().push(node);
                    present.insert(node.clone(), (kind, now));
                }
                None => present.extend(known.map(|known| (node.clone(), known))),
            }
        }
        self.kept = present;
        let record = |((reason, message), nodes): ((&str, String), Vec<&str>)| {
            let pool = |name: &&str| index.nodes.get(name)?.label(api::label::NODEPOOL).map(str::to_owned);
            let pools: BTreeSet<String> = nodes.iter().filter_map(pool).collect();
            Decision {
                message,
                nodepools: pools.into_iter().collect(),
                nodes: nodes.into_iter().collect(),
                ..Decision::new(now, DecisionKind::Kept, reason)
            }
        };
        news.into_iter().map(record).collect()
    }
}

#[cfg(test)]
mod tests;
