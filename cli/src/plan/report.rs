//! Plan as a stable document: the JSON of `kerf plan`, described field by field in docs/plan-format.md.

mod commitments;
mod disruption;
mod interrupted;
mod preferences;
mod spending;
mod splits;

use std::collections::{BTreeMap, BTreeSet};

use api::{label, quantity};
use planner::{CapacityHolder, Launch, PodVerdict, Purpose, Requirement, Resources};
use serde::Serialize;
use serde_json::Value;

use super::what_if::WhatIf;
use super::{PlanAnswer, cost, view};
use crate::output::money::dollars;
pub use commitments::CommitmentReport;
pub(crate) use commitments::commitment_text;
pub use disruption::{CommandReport, Disruption, NotResizedPod, PodPlace, Resized, StayingNode};
pub(crate) use interrupted::INTERRUPTED;
pub use preferences::PreferenceReport;
pub(crate) use preferences::preference_text;
pub use spending::SpendReport;
pub(crate) use spending::spend_text;
pub use splits::SplitReport;
pub(crate) use splits::requested_split;

/// Complete report of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// NodeClaims to launch.
    pub node_claims: Vec<NewClaim>,
    /// Pods newly placed on existing or in-flight nodes.
    pub existing: Vec<Placed>,
    /// Pods without a place.
    pub unschedulable: Vec<UnschedulablePod>,
    /// Pods that are deliberately ignored.
    pub ignored: Vec<IgnoredPod>,
    /// Workloads that are split over on-demand and spot.
    pub splits: Vec<SplitReport>,
    /// Preferences of placed pods, by workload.
    pub preferences: Vec<PreferenceReport>,
    /// Nodes that the plan removes.
    pub removals: Vec<RemovedNode>,
    /// Removed nodes with their replacements and savings, and the reasons why other nodes are not disrupted.
    pub disruption: Disruption,
    /// Cost of all nodes.
    pub cost: Cost,
    /// SpendPolicies with the cost of their NodePools.
    pub spend_policies: Vec<SpendReport>,
    /// Commitments with the part that nodes use.
    pub commitments: Vec<CommitmentReport>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Comparison with the plan without changes, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_if: Option<WhatIf>,
}

/// A NodeClaim to launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewClaim {
    /// Name of the NodePool, and a number.
    pub name: String,
    /// Name of the NodePool.
    pub node_pool: String,
    /// Requirements of the instance.
    pub requirements: Vec<ClaimRequirement>,
    /// Possible instance types, cheapest first.
    pub instance_types: Vec<String>,
    /// True if `minValues` were lowered to the number of available values.
    pub min_values_relaxed: bool,
    /// Requests of the pods plus the minimum DaemonSet overhead, as quantities.
    pub requests: BTreeMap<String, String>,
    /// Price of the cheapest available offering that fits, in dollars.
    pub price_per_hour: String,
    /// Pods of the node, as `namespace/name`.
    pub pods: Vec<String>,
    /// `provision` or `replacement`.
    pub purpose: &'static str,
}

/// A requirement of a NodeClaim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRequirement {
    /// Label key.
    pub key: String,
    /// `In`, `NotIn`, ...
    pub operator: String,
    /// Values.
    pub values: Vec<String>,
    /// Minimum number of values that must remain possible.
    pub min_values: Option<u32>,
}

/// Pods newly placed on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placed {
    /// Name of the Node, or of the NodeClaim while it has no Node.
    pub node: String,
    /// `namespace/name`.
    pub pods: Vec<String>,
}

/// A pod without a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnschedulablePod {
    /// `namespace/name`.
    pub pod: String,
    /// Reason as one word.
    pub reason: String,
    /// Reason as a sentence.
    pub message: String,
}

/// A pod that is deliberately ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IgnoredPod {
    /// `namespace/name`.
    pub pod: String,
    /// Reason as a sentence.
    pub reason: String,
}

/// A node that the plan removes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RemovedNode {
    /// Name of the Node, or of the NodeClaim while it has no Node.
    pub node: String,
    /// Karpenter's reason of the disruption.
    pub reason: String,
    /// Price per hour in dollars; `null` if the node's type is unknown.
    pub price_per_hour: Option<String>,
}

/// Cost of all nodes of known type, in dollars per hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Current prices of the instances.
    pub before: String,
    /// Prices of the instances after the plan is carried out.
    pub after: String,
    /// Part of these prices for which Commitments pay.
    pub paid: PartialCost,
    /// Cost of the nodes beside their instances: EBS volumes, public IPv4 addresses and node fees.
    pub extras: PartialCost,
}

/// Part of the cost, in dollars per hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartialCost {
    /// Current cost.
    pub before: String,
    /// Cost after the plan is carried out.
    pub after: String,
}

impl Cost {
    fn new(answer: &PlanAnswer) -> Self {
        let (before, after) = cost::before_and_after(answer);
        let part = |before, after| PartialCost { before: dollars(before), after: dollars(after) };
        Self {
            before: dollars(before.instances),
            after: dollars(after.instances),
            paid: part(before.paid, after.paid),
            extras: part(before.extras, after.extras),
        }
    }
}

impl PlanReport {
    /// Builds the report of a plan.
    #[must_use]
    pub fn new(answer: &PlanAnswer) -> Self {
        let names = view::names(answer);
        Self {
            node_claims: claims(answer, &names),
            existing: existing(answer),
            unschedulable: unschedulable(answer),
            ignored: ignored(answer),
            splits: splits::splits(answer),
            preferences: preferences::preferences(answer),
            removals: removals(answer),
            disruption: disruption::disruption(answer, interrupted::commands(answer, &names), &names),
            cost: Cost::new(answer),
            spend_policies: spending::policies(answer),
            commitments: commitments::commitments(answer),
            warnings: warnings(answer),
            what_if: None,
        }
    }
}

/// Returns all warnings, including buffers and requests without capacity: their virtual pods are not reported as unschedulable.
fn warnings(answer: &PlanAnswer) -> Vec<String> {
    let mut missing: BTreeMap<&CapacityHolder, usize> = BTreeMap::new();
    for (pod, verdict) in answer.built.snapshot.pods.iter().zip(&answer.plan.report.pods) {
        if let Some(holder) = pod.holder.as_ref().filter(|_| is_unplaced(verdict)) {
            *missing.entry(holder).or_default() += 1;
        }
    }
    let without_capacity =
        missing.into_iter().map(|(holder, count)| format!("{holder}: no capacity for {count} of its pods"));
    let without_types = answer.plan.report.pools_without_types.iter();
    let without_types =
        without_types.map(|pool| format!("NodePool {pool}: no available instance type matches its requirements"));
    let short_of_values = answer.plan.report.pools_short_of_values.iter();
    let short_of_values = short_of_values
        .map(|pool| format!("NodePool {pool}: the available instance types have fewer values than minValues requires"));
    let all = answer.cluster.warnings.iter().cloned().chain(without_capacity);
    let mut all: Vec<String> = all.chain(without_types).chain(short_of_values).collect();
    all.sort();
    all
}

fn removals(answer: &PlanAnswer) -> Vec<RemovedNode> {
    let price = |name: &str| {
        let node = answer.built.snapshot.nodes.iter().find(|node| node.name == name);
        node.and_then(|node| cost::price(answer, node)).map(dollars)
    };
    let one = |it: &planner::PlannedCommand, leaver: &planner::DisruptedNode| RemovedNode {
        node: leaver.node.clone(),
        reason: it.reason.to_string(),
        price_per_hour: price(&leaver.node),
    };
    let all = answer.plan.moves.iter().flat_map(|it| it.nodes.iter().map(move |leaver| one(it, leaver)));
    let mut list: Vec<RemovedNode> = all.collect();
    list.sort_by(|one, other| one.node.cmp(&other.node));
    list
}

fn ignored(answer: &PlanAnswer) -> Vec<IgnoredPod> {
    let one = |it: &snapshot::Ignored| IgnoredPod { pod: it.pod.clone(), reason: it.reason.to_string() };
    answer.built.ignored.iter().map(one).collect()
}

fn claims(answer: &PlanAnswer, names: &[String]) -> Vec<NewClaim> {
    let mut arriving = disruption::pods_by_launch(answer);
    let replacements = interrupted::launches(answer);
    let named = names.iter().zip(&answer.plan.launches).enumerate();
    let one = |(position, (name, launch)): (usize, (&String, &Launch))| {
        let mut pods = pods(answer, launch.pods.iter().copied());
        pods.extend(arriving.remove(&position).into_iter().flatten());
        pods.sort();
        let is_replacement = launch.purpose == Purpose::Replacement || replacements.contains(&position);
        claim(name.clone(), launch, pods, is_replacement)
    };
    named.map(one).collect()
}

fn claim(name: String, launch: &Launch, pods: Vec<String>, is_replacement: bool) -> NewClaim {
    let mut requirements: Vec<ClaimRequirement> = launch.requirements.iter().map(requirement).collect();
    // Instance types have a separate list. The requirements contain them too if a minimum number of types is required.
    requirements.extend(launch.min_instance_types.map(|count| ClaimRequirement {
        key: label::INSTANCE_TYPE.to_owned(),
        operator: "In".to_owned(),
        values: launch.instance_types.to_vec(),
        min_values: Some(count),
    }));
    requirements.sort_by(|one, other| {
        (&one.key, &one.operator, &one.values).cmp(&(&other.key, &other.operator, &other.values))
    });
    NewClaim {
        name,
        node_pool: launch.pool.clone(),
        requirements,
        instance_types: launch.instance_types.to_vec(),
        min_values_relaxed: launch.min_values_relaxed,
        requests: amounts(&launch.requests),
        price_per_hour: dollars(launch.price.0),
        pods,
        purpose: if is_replacement { "replacement" } else { "provision" },
    }
}

fn requirement(it: &Requirement) -> ClaimRequirement {
    ClaimRequirement {
        key: it.key.clone(),
        operator: format!("{:?}", it.operator),
        values: it.values.clone(),
        min_values: it.min_values,
    }
}

/// Returns amounts as Kubernetes quantities.
pub(crate) fn amounts(resources: &Resources) -> BTreeMap<String, String> {
    resources.iter().map(|(name, amount)| (name.to_owned(), quantity::text(name, amount))).collect()
}

/// Returns the names of pods, sorted.
fn pods(answer: &PlanAnswer, positions: impl Iterator<Item = usize>) -> Vec<String> {
    let mut names: Vec<String> = positions.map(|pod| answer.built.snapshot.pods[pod].name.clone()).collect();
    names.sort();
    names
}

fn existing(answer: &PlanAnswer) -> Vec<Placed> {
    let mut by_node: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for nomination in &answer.plan.nominations {
        by_node.entry(&nomination.node).or_default().push(nomination.pod);
    }
    by_node
        .into_iter()
        .map(|(node, list)| Placed { node: node.to_owned(), pods: pods(answer, list.into_iter()) })
        .collect()
}

fn unschedulable(answer: &PlanAnswer) -> Vec<UnschedulablePod> {
    let all = answer.built.snapshot.pods.iter().zip(&answer.plan.report.pods);
    let without = all.filter(|(pod, verdict)| pod.holder.is_none() && is_unplaced(verdict));
    without
        .map(|(pod, verdict)| UnschedulablePod {
            pod: pod.name.clone(),
            reason: reason_word(verdict),
            message: verdict.to_string(),
        })
        .collect()
}

/// Reports whether the pod has no place.
#[must_use]
pub fn is_unplaced(verdict: &PodVerdict) -> bool {
    matches!(verdict, PodVerdict::Unschedulable { .. } | PodVerdict::Postponed)
}

/// Returns the reason of an unschedulable pod as one word: the common reason of all NodePools, else `Several`.
fn reason_word(verdict: &PodVerdict) -> String {
    let PodVerdict::Unschedulable { pools, .. } = verdict else { return "Postponed".to_owned() };
    let words: BTreeSet<String> = pools.iter().map(|pool| variant_name(&pool.miss)).collect();
    match words.len() {
        0 => "NoPool".to_owned(),
        1 => words.into_iter().next().unwrap_or_default(),
        _ => "Several".to_owned(),
    }
}

/// Returns the name of the reason's variant, such as `Taint`.
fn variant_name(miss: &planner::UnschedulableReason) -> String {
    let name = match serde_json::to_value(miss) {
        Ok(Value::Object(fields)) => fields.into_iter().next().map(|(name, _)| name),
        Ok(Value::String(name)) => Some(name),
        _ => None,
    };
    let name = name.unwrap_or_default();
    let mut letters = name.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
