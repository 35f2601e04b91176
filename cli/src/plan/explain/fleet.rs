//! Explanation of the cost of the whole cluster: who causes it, what the plan saves, and why the other nodes stay.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use api::objects::{Pod, cost_label};
use planner::{Node, NodeVerdict, Resources};

use super::Explanation;
use crate::output::counted;
use crate::output::money::rounded;
use crate::plan::{PlanAnswer, cost, view};

/// Maximum number of workloads, and of reasons.
const SHOWN: usize = 10;

/// Returns the explanation of the cost of the cluster, by workload or by this label of pods.
#[must_use]
pub fn cost_of_cluster(answer: &PlanAnswer, by: Option<&str>, colours: bool) -> String {
    let mut explanation = Explanation::new(colours);
    let (before, after) = cost::before_and_after(answer);
    let (whole, saving) = (before.sum(), before.sum() - after.sum());
    let month = rounded(cost::per_month(whole));
    explanation.title(&format!("Cost: {} per hour, {month} per month", rounded(whole)));
    if before.extras > 0 {
        explanation.line(&format!("with {} per hour for volumes, addresses and node fees", rounded(before.extras)));
    }
    let unpriced = answer.built.snapshot.nodes.iter().filter(|node| cost::price(answer, node).is_none()).count();
    if unpriced > 0 {
        explanation.line(&format!("without {}, whose price is unknown", counted(unpriced, "node")));
    }
    if !answer.built.snapshot.nodes.is_empty() {
        pools(&mut explanation, answer, whole);
        workloads(&mut explanation, answer, by, whole);
    }
    explanation.heading("ANSWER");
    let launched = answer.plan.launches.len();
    explanation.line(&match saving {
        _ if launched == 0 && answer.plan.moves.is_empty() => "The plan changes nothing.".to_owned(),
        0.. => format!("The plan saves {} per hour.", rounded(saving)),
        _ => format!("The plan costs {} more per hour: it launches {}.", rounded(-saving), counted(launched, "node")),
    });
    for command in &answer.plan.moves {
        let saves = command.saving.map(|saving| format!(", saves {}", rounded(saving.0))).unwrap_or_default();
        let nodes: Vec<&str> = command.nodes.iter().map(|leaver| leaver.node.as_str()).collect();
        explanation.line(&format!("removes {} ({}){saves}", nodes.join(", "), command.reason));
    }
    staying(&mut explanation, answer);
    explanation.text()
}

fn percent(part: i64, whole: i64) -> i64 {
    if whole > 0 { (part * 100 + whole / 2) / whole } else { 0 }
}

/// Adds the cost of each NodePool, and how much of its nodes is requested.
fn pools(explanation: &mut Explanation, answer: &PlanAnswer, whole: i64) {
    let mut pools: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for node in &answer.built.snapshot.nodes {
        pools.entry(node.pool.as_deref().unwrap_or_default()).or_default().push(node);
    }
    explanation.heading("NODEPOOLS");
    for (pool, nodes) in pools {
        let price: i64 = nodes.iter().filter_map(|node| cost::price(answer, node)).sum();
        let name = if pool.is_empty() { "without NodePool" } else { pool };
        let requested = |resource: &str| {
            let sum =
                |amount: fn(&Node) -> &Resources| nodes.iter().map(|node| amount(node).get(resource)).sum::<i64>();
            format!("{resource} {} %", percent(sum(|node| &node.used), sum(|node| &node.allocatable)))
        };
        let shares = [Resources::CPU, Resources::MEMORY].map(requested).join(", ");
        let nodes = counted(nodes.len(), "node");
        explanation.line(&format!(
            "{name}: {} ({} %) for {nodes}; requested {shares}",
            rounded(price),
            percent(price, whole)
        ));
    }
}

/// Cost of a workload.
#[derive(Default)]
struct WorkloadCost {
    price: i64,
    pods: usize,
}

/// Adds the most expensive workloads, or values of a label. The price of a node is divided among its pods by their requests, so idle
/// capacity counts for the pods beside it.
fn workloads(explanation: &mut Explanation, answer: &PlanAnswer, by: Option<&str>, whole: i64) {
    let owner = owners(answer, by);
    let mut workloads: BTreeMap<String, WorkloadCost> = BTreeMap::new();
    let mut idle = 0;
    for node in &answer.built.snapshot.nodes {
        let Some(price) = cost::price(answer, node) else { continue };
        let pods: Vec<_> = node.pods.iter().filter(|pod| pod.holder.is_none()).collect();
        let weights: Vec<i64> = pods.iter().map(|pod| pod.shape.requests.share_of(&node.allocatable)).collect();
        let sum: i64 = weights.iter().sum();
        if sum == 0 {
            idle += price;
            continue;
        }
        for (pod, weight) in pods.iter().zip(weights) {
            let cost = workloads.entry(owner(&pod.name)).or_default();
            cost.price += price * weight / sum;
            cost.pods += 1;
        }
    }
    let mut sorted: Vec<(String, WorkloadCost)> = workloads.into_iter().collect();
    sorted.sort_by_key(|(_, cost)| Reverse(cost.price));
    explanation.heading(&by.map_or_else(|| "WORKLOADS".to_owned(), |label| format!("LABEL {label}")));
    for (owner, cost) in sorted.iter().take(SHOWN) {
        let share = percent(cost.price, whole);
        explanation.line(&format!("{owner}: {} ({share} %) for {}", rounded(cost.price), counted(cost.pods, "pod")));
    }
    if sorted.len() > SHOWN {
        let rest: i64 = sorted.iter().skip(SHOWN).map(|(_, cost)| cost.price).sum();
        explanation.line(&format!("{} others: {}", sorted.len() - SHOWN, rounded(rest)));
    }
    if idle > 0 {
        explanation.line(&format!("nodes without requests: {} ({} %)", rounded(idle), percent(idle, whole)));
    }
}

/// Returns the function from the name of a pod to the workload or label value to which its cost counts. A pod without the label
/// counts for the label of its namespace.
fn owners<'a>(answer: &'a PlanAnswer, by: Option<&'a str>) -> Box<dyn Fn(&str) -> String + 'a> {
    let Some(label) = by else { return Box::new(|pod| view::owner_of(answer, pod)) };
    let objects = &answer.cluster.objects;
    let value = |pod: &'a Arc<Pod>| {
        let namespace = objects.namespaces.iter().find(|known| known.name() == pod.namespace());
        let value = cost_label(pod, namespace.map(AsRef::as_ref), label)?;
        Some((format!("{}/{}", pod.namespace(), pod.name()), value))
    };
    let values: BTreeMap<String, &str> = objects.pods.iter().filter_map(value).collect();
    Box::new(move |pod| values.get(pod).map_or_else(|| format!("without {label}"), |value| (*value).to_owned()))
}

/// Nodes that stay for the same kind of reason.
struct StayingNodes<'a> {
    nodes: usize,
    price: i64,
    /// The first of them, with its reason.
    sample: (&'a str, &'a NodeVerdict),
}

/// Adds why the other nodes stay, the most expensive reason first.
fn staying(explanation: &mut Explanation, answer: &PlanAnswer) {
    let prices: BTreeMap<&str, i64> = answer
        .built
        .snapshot
        .nodes
        .iter()
        .map(|node| (node.name.as_str(), cost::price(answer, node).unwrap_or_default()))
        .collect();
    let mut reasons: Vec<(Discriminant<NodeVerdict>, StayingNodes<'_>)> = Vec::new();
    for (name, verdict) in &answer.plan.report.nodes {
        if matches!(verdict, NodeVerdict::Remove(_) | NodeVerdict::Leaving) {
            continue;
        }
        let (kind, price) = (discriminant(verdict), prices.get(name.as_str()).copied().unwrap_or_default());
        match reasons.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, known)) => (known.nodes, known.price) = (known.nodes + 1, known.price + price),
            None => reasons.push((kind, StayingNodes { nodes: 1, price, sample: (name, verdict) })),
        }
    }
    reasons.sort_by_key(|(_, reason)| Reverse(reason.price));
    if reasons.is_empty() {
        return;
    }
    explanation.heading("NODES THAT STAY");
    for (_, StayingNodes { nodes, price, sample: (name, verdict) }) in reasons.into_iter().take(SHOWN) {
        let example = if nodes == 1 { name.to_owned() } else { format!("{}, such as {name}", counted(nodes, "node")) };
        explanation.line(&format!("{example}, {}: it {verdict}", rounded(price)));
    }
}
