//! Disruption of a plan: commands with their nodes and replacements, reasons why other nodes are not disrupted, and request
//! resizes of running pods.

use std::collections::BTreeMap;

use api::quantity;
use planner::{ContainerResize, Destination, NodeVerdict, PlannedCommand, Resize, Resources, Size};
use serde::Serialize;

use crate::output::counted;
use crate::output::money::dollars;
use crate::plan::PlanAnswer;

/// Commands, nodes that are not disrupted, and request resizes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Nodes that EC2 interrupts first, by name, then commands in the order of the decisions.
    pub moves: Vec<CommandReport>,
    /// Nodes that are not disrupted, by name.
    pub stays: Vec<StayingNode>,
    /// Request resizes, by node and pod.
    pub resizes: Vec<Resized>,
    /// Savings in dollars of commands that fit only because requests were lowered.
    pub saving_from_usage: String,
    /// Pods in NodePools with `kerf.sh/utilization: pack` whose requests do not change, by node and pod.
    pub unpacked: Vec<NotResizedPod>,
}

/// A container whose requests change while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resized {
    /// `namespace/name` of the pod.
    pub pod: String,
    /// Node of the pod, which does not change.
    pub node: String,
    /// Name of the container.
    pub container: String,
    /// Current requests: quantities of the resources that change.
    pub from: BTreeMap<String, String>,
    /// New requests.
    pub to: BTreeMap<String, String>,
    /// Reason as a sentence.
    pub why: String,
}

/// A pod whose requests do not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NotResizedPod {
    /// `namespace/name`.
    pub pod: String,
    /// Node of the pod.
    pub node: String,
    /// Reason as a sentence.
    pub why: String,
}

/// Nodes that are removed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandReport {
    /// Karpenter's reason of the disruption.
    pub reason: String,
    /// Names of the Nodes.
    pub nodes: Vec<String>,
    /// Names of the NodeClaims that must be ready before the removal.
    pub replacements: Vec<String>,
    /// Destinations of the nodes' pods.
    pub pods: Vec<PodPlace>,
    /// Savings in dollars per hour; negative if the replacements cost more, `null` if a price is unknown.
    pub saving_per_hour: Option<String>,
    /// Savings in micro-dollars, for tables.
    #[serde(skip)]
    pub saving: Option<i64>,
    /// Reason as a sentence.
    pub why: String,
}

/// A pod, and the Node or NodeClaim with capacity for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodPlace {
    /// `namespace/name`.
    pub pod: String,
    /// Name of the Node or NodeClaim.
    pub to: String,
    /// `true` if a copy must be ready at the destination before the pod is evicted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub surge: bool,
}

/// A node that is not disrupted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StayingNode {
    /// Name of the Node, or of the NodeClaim while it has no Node.
    pub node: String,
    /// Reason as a sentence.
    pub why: String,
}

/// Builds the report of the plan's disruption. `interrupted` are the entries of interrupted nodes, `names` the names of the
/// launches.
pub(super) fn disruption(answer: &PlanAnswer, interrupted: Vec<CommandReport>, names: &[String]) -> Disruption {
    let plan = &answer.plan;
    let stays = plan.report.nodes.iter();
    let stays = stays.filter(|(_, verdict)| !matches!(verdict, NodeVerdict::Remove(_) | NodeVerdict::Leaving));
    let mut stays: Vec<StayingNode> =
        stays.map(|(node, verdict)| StayingNode { node: node.clone(), why: verdict.to_string() }).collect();
    stays.sort_by(|one, other| one.node.cmp(&other.node));
    let unpacked = plan.report.unpacked.iter();
    let unpacked =
        unpacked.map(|it| NotResizedPod { pod: it.pod.clone(), node: it.node.clone(), why: it.why.to_string() });
    let planned = plan.moves.iter().map(|it| command(answer, it, names));
    Disruption {
        moves: interrupted.into_iter().chain(planned).collect(),
        stays,
        resizes: plan.resizes.iter().flat_map(|it| it.containers.iter().map(|own| resized(it, own))).collect(),
        saving_from_usage: dollars(plan.saved_by_usage.0),
        unpacked: unpacked.collect(),
    }
}

fn resized(it: &Resize, own: &ContainerResize) -> Resized {
    let changed = |size: Size| {
        let both = [
            (Resources::CPU, size.cpu, own.from.cpu != own.to.cpu),
            (Resources::MEMORY, size.memory, own.from.memory != own.to.memory),
        ];
        let changed = both.into_iter().filter(|(.., changes)| *changes);
        changed.map(|(name, amount, _)| (name.to_owned(), quantity::text(name, amount))).collect()
    };
    Resized {
        pod: it.pod.clone(),
        node: it.node.clone(),
        container: own.name.clone(),
        from: changed(own.from),
        to: changed(own.to),
        why: it.why.to_string(),
    }
}

fn command(answer: &PlanAnswer, it: &PlannedCommand, names: &[String]) -> CommandReport {
    let name = |launch: &usize| names.get(*launch).cloned().unwrap_or_default();
    let mut pods: Vec<PodPlace> = it
        .pods
        .iter()
        .map(|pod| PodPlace {
            pod: pod.pod.clone(),
            to: match &pod.to {
                Destination::Node(node) => node.clone(),
                Destination::Launch(launch) => name(launch),
            },
            surge: pod.surge,
        })
        .collect();
    pods.sort_by(|one, other| (&one.pod, &one.to).cmp(&(&other.pod, &other.to)));
    CommandReport {
        reason: it.reason.to_string(),
        nodes: it.nodes.iter().map(|removed_node| removed_node.node.clone()).collect(),
        replacements: it.replacements.iter().map(name).collect(),
        pods,
        saving_per_hour: it.saving.map(|saving| dollars(saving.0)),
        saving: it.saving.map(|saving| saving.0),
        why: format!("{}{}", it.why, unplaced_pods(answer, it)),
    }
}

/// Returns the pods without a planned place, as the end of a sentence. The removal of an unhealthy node does not wait for
/// places.
fn unplaced_pods(answer: &PlanAnswer, it: &PlannedCommand) -> String {
    let is_removed = |node: &&planner::Node| it.nodes.iter().any(|removed_node| removed_node.node == node.name);
    let removed: Vec<&planner::Node> =
        answer.built.snapshot.nodes.iter().map(AsRef::as_ref).filter(is_removed).collect();
    let unplaced = without_place(&removed, it.pods.len());
    unplaced.map(|unplaced| format!("; its {unplaced} are rescheduled after its removal")).unwrap_or_default()
}

/// Returns the number of pods on removed nodes that need a place and have none, if `placed` pods have one; `None` if all have
/// one.
pub(super) fn without_place(removed: &[&planner::Node], placed: usize) -> Option<String> {
    let all = removed.iter().flat_map(|node| &node.pods).filter(|pod| pod.reschedulable).count();
    Some(all.saturating_sub(placed)).filter(|count| *count > 0).map(|count| counted(count, "pod"))
}

/// Returns the names of pods that move to a launch, by the launch's position.
pub(super) fn pods_by_launch(answer: &PlanAnswer) -> BTreeMap<usize, Vec<String>> {
    let mut pods: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for pod in answer.plan.moves.iter().flat_map(|it| &it.pods) {
        if let Destination::Launch(launch) = pod.to {
            pods.entry(launch).or_default().push(pod.pod.clone());
        }
    }
    pods
}
