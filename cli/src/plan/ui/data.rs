//! Data of the page, as JSON.

use std::collections::BTreeMap;

use api::decisions::{Decision, DecisionKind};
use jiff::Timestamp;
use serde::Serialize;

use crate::output::money::rounded;
use crate::plan::top::overview::{Load, NodeLine, Overview};
use crate::plan::top::{ShownNodes, SortKey};
use crate::plan::{PlanAnswer, view};

/// Number of names of a decision on the page.
const NAMES: usize = 5;

/// Everything that the page shows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageData<'a> {
    read: Timestamp,
    problem: &'a str,
    cost: String,
    cost_per_day: String,
    cost_after: Option<String>,
    pods: usize,
    nodes: Vec<PageNode>,
    pending: Vec<PagePod>,
    commands: Vec<PageCommand>,
    decisions: Vec<PageDecision<'a>>,
    undecided: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PageNode {
    name: String,
    pool: String,
    zone: String,
    #[serde(rename = "type")]
    kind: String,
    capacity_type: String,
    price: Option<String>,
    state: &'static str,
    pods: usize,
    cpu: PageLoad,
    memory: PageLoad,
    /// Parts of the node's CPU that its pods request, in percent.
    shares: Vec<i64>,
}

/// Parts of the allocatable amount, in percent.
#[derive(Serialize)]
struct PageLoad {
    requested: Option<i64>,
    used: Option<i64>,
}

#[derive(Serialize)]
struct PagePod {
    pod: String,
    reason: String,
}

#[derive(Serialize)]
struct PageCommand {
    nodes: Vec<String>,
    reason: String,
    why: String,
    saving: Option<String>,
}

/// A decision with few names.
#[derive(Serialize)]
struct PageDecision<'a> {
    time: Timestamp,
    kind: &'static str,
    reason: &'a str,
    message: &'a str,
    objects: String,
    /// Stages of a node's start, with their ends in seconds after its begin.
    stages: Vec<(String, f64)>,
    saving: Option<String>,
    price: Option<String>,
}

impl<'a> PageData<'a> {
    pub(super) fn new(
        answer: &PlanAnswer,
        read: Timestamp,
        problem: &'a str,
        decisions: &'a [Decision],
        undecided: &'a str,
    ) -> Self {
        let overview = Overview::new(answer, &ShownNodes { sort: SortKey::Name, ..ShownNodes::default() });
        let shares = shares(answer);
        let (cost, cost_after) = (rounded(overview.cost), overview.cost_after.map(rounded));
        let pods = overview.pods();
        let node = |line: NodeLine| {
            let shares = shares.get(line.name.as_str()).cloned().unwrap_or_default();
            PageNode::new(line, shares)
        };
        let command = |it: crate::plan::report::CommandReport| PageCommand {
            nodes: it.nodes,
            reason: it.reason,
            why: it.why,
            saving: it.saving.map(rounded),
        };
        Self {
            read,
            problem,
            cost,
            cost_per_day: rounded(overview.cost.saturating_mul(24)),
            cost_after,
            pods,
            nodes: overview.nodes.into_iter().map(node).collect(),
            pending: overview.pending.into_iter().map(|(pod, reason)| PagePod { pod, reason }).collect(),
            commands: overview.commands.into_iter().map(command).collect(),
            decisions: decisions.iter().rev().map(|decision| PageDecision::new(answer, decision)).collect(),
            undecided,
        }
    }
}

impl PageNode {
    fn new(line: NodeLine, shares: Vec<i64>) -> Self {
        Self {
            name: line.name,
            pool: line.pool,
            zone: line.zone,
            kind: line.kind,
            capacity_type: line.capacity_type,
            price: line.price.map(rounded),
            state: line.state,
            pods: line.pods,
            cpu: PageLoad::new(line.cpu),
            memory: PageLoad::new(line.memory),
            shares,
        }
    }
}

impl PageLoad {
    fn new(load: Load) -> Self {
        Self { requested: load.percent(), used: load.percent_used() }
    }
}

impl<'a> PageDecision<'a> {
    fn new(answer: &PlanAnswer, decision: &'a Decision) -> Self {
        let lists = [&decision.nodes, &decision.nodeclaims, &decision.pods];
        let objects =
            lists.into_iter().find(|names| !names.is_empty()).map(|names| names.listed(NAMES)).unwrap_or_default();
        Self {
            time: decision.time,
            kind: decision.kind.as_str(),
            reason: &decision.reason,
            message: &decision.message,
            objects,
            stages: stages(answer, decision),
            saving: decision.saving_per_hour.map(rounded),
            price: decision.price_per_hour.map(rounded),
        }
    }
}

/// Returns the stages of a node's start after the first one, with their times in seconds after it. A NodeClaim that still exists
/// knows more of them than the decision.
fn stages(answer: &PlanAnswer, decision: &Decision) -> Vec<(String, f64)> {
    let claim = decision.nodeclaims.names.first().filter(|_| decision.kind == DecisionKind::Initialized);
    let known = claim.map(|claim| view::start_stages(answer, claim)).filter(|stages| !stages.is_empty());
    let stages = known.unwrap_or_else(|| decision.stages.clone());
    let Some(first) = stages.first().map(|stage| stage.at) else { return Vec::new() };
    let after = stages.into_iter().skip(1);
    after.map(|stage| (stage.stage, stage.at.duration_since(first).as_secs_f64())).collect()
}

/// Returns the parts of each node's CPU that its pods request, the largest first.
fn shares(answer: &PlanAnswer) -> BTreeMap<&str, Vec<i64>> {
    let nodes = answer.built.snapshot.nodes.iter();
    let of_node = |node: &'_ planner::Node| {
        let all = node.allocatable.get(planner::Resources::CPU).max(1);
        let pods = node.pods.iter().filter(|pod| pod.holder.is_none());
        let mut parts: Vec<i64> =
            pods.map(|pod| pod.shape.requests.get(planner::Resources::CPU).saturating_mul(100) / all).collect();
        parts.sort_unstable_by_key(|part| std::cmp::Reverse(*part));
        parts
    };
    nodes.map(|node| (node.name.as_str(), of_node(node))).collect()
}
