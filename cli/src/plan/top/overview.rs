//! The figures of a cluster that the view shows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::label;
use planner::{Leaving, Node, NodeVerdict, Resources, Stage};

use super::{ExtraColumns, ShownNodes, SortKey};
use crate::plan::report::{CommandReport, PlanReport};
use crate::plan::{PlanAnswer, cost};

/// Taints of nodes whose kubelet is not ready.
const NOT_READY: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Figures of a cluster.
#[derive(Clone, Debug, Default)]
pub(in crate::plan) struct Overview {
    /// Selected nodes, in the requested order.
    pub(in crate::plan) nodes: Vec<NodeLine>,
    /// NodePools of these nodes, by name.
    pub(in crate::plan) pools: Vec<PoolLine>,
    /// Pods without a place, with the reason.
    pub(in crate::plan) pending: Vec<(String, String)>,
    /// Commands of the plan that remove selected nodes, and interruptions.
    pub(in crate::plan) commands: Vec<CommandReport>,
    /// Cost of the selected nodes per hour, in millionths of a dollar.
    pub(in crate::plan) cost: i64,
    /// Cost of all nodes after the plan is carried out; `None` where only some are selected.
    pub(in crate::plan) cost_after: Option<i64>,
    /// Titles of the requested columns, with the width of their longest text.
    pub(in crate::plan) extra: Vec<(String, usize)>,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::plan) struct NodeLine {
    /// Name of the Node, or of the NodeClaim while it has no Node.
    pub(in crate::plan) name: String,
    /// NodePool; empty for nodes that Kerf does not manage.
    pub(in crate::plan) pool: String,
    /// Instance type.
    pub(in crate::plan) kind: String,
    /// Zone.
    pub(in crate::plan) zone: String,
    /// Capacity type.
    pub(in crate::plan) capacity_type: String,
    /// Price per hour, in millionths of a dollar.
    pub(in crate::plan) price: Option<i64>,
    /// Number of pods.
    pub(in crate::plan) pods: usize,
    /// CPU.
    pub(in crate::plan) cpu: Load,
    /// Memory.
    pub(in crate::plan) memory: Load,
    /// State as one or two words.
    pub(in crate::plan) state: &'static str,
    /// Age in seconds, if it is known.
    pub(in crate::plan) age: Option<i64>,
    /// Texts of the requested columns.
    pub(in crate::plan) extra: Vec<String>,
}

/// One resource, in its unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::plan) struct Load {
    /// Allocatable amount.
    pub(in crate::plan) allocatable: i64,
    /// Requested amount.
    pub(in crate::plan) requested: i64,
    /// Used amount, on nodes with a valid usage report.
    pub(in crate::plan) used: Option<i64>,
}

impl Load {
    /// Sum of no nodes.
    const NOTHING: Self = Self { allocatable: 0, requested: 0, used: Some(0) };

    fn new(node: &Node, resource: &str, used: Option<i64>) -> Self {
        Self { allocatable: node.allocatable.get(resource), requested: node.used.get(resource), used }
    }

    /// Adds another node's amounts. The sum has a used amount only if every node has one.
    fn plus(self, other: Self) -> Self {
        Self {
            allocatable: self.allocatable.saturating_add(other.allocatable),
            requested: self.requested.saturating_add(other.requested),
            used: self.used.zip(other.used).map(|(one, other)| one.saturating_add(other)),
        }
    }

    /// Returns the requested part in percent, if the node has the resource.
    pub(in crate::plan) fn percent(self) -> Option<i64> {
        self.part(self.requested)
    }

    /// Returns the used part in percent, if it is known.
    pub(in crate::plan) fn percent_used(self) -> Option<i64> {
        self.part(self.used?)
    }

    fn part(self, amount: i64) -> Option<i64> {
        (self.allocatable > 0).then(|| amount.saturating_mul(100) / self.allocatable)
    }

    /// Returns `REQUESTED/USED` in percent; `-` stands for an unknown part.
    pub(in crate::plan) fn text(self) -> String {
        let part = |amount: Option<i64>| {
            amount.and_then(|amount| self.part(amount)).map_or_else(|| "-".to_owned(), |part| part.to_string())
        };
        format!("{}/{}", part(Some(self.requested)), part(self.used))
    }
}

/// Sums of one NodePool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::plan) struct PoolLine {
    /// Name; empty for nodes that Kerf does not manage.
    pub(in crate::plan) name: String,
    /// Number of nodes.
    pub(in crate::plan) nodes: usize,
    /// Number of pods.
    pub(in crate::plan) pods: usize,
    /// CPU of all nodes.
    pub(in crate::plan) cpu: Load,
    /// Memory of all nodes.
    pub(in crate::plan) memory: Load,
    /// Sum of the known prices per hour.
    pub(in crate::plan) price: i64,
}

impl Overview {
    pub(in crate::plan) fn new(answer: &PlanAnswer, shown: &ShownNodes) -> Self {
        let verdicts: BTreeMap<&str, &NodeVerdict> =
            answer.plan.report.nodes.iter().map(|(node, verdict)| (node.as_str(), verdict)).collect();
        let nodes = answer.built.snapshot.nodes.iter().filter(|node| shown.selected.allow_labels(&node.labels));
        let line = |node: &Arc<Node>| NodeLine {
            extra: shown.columns.texts(node),
            ..node_line(answer, node, verdicts.get(node.name.as_str()).copied())
        };
        let mut nodes: Vec<NodeLine> = nodes.map(line).collect();
        sort(&mut nodes, shown.sort);
        let PlanReport { unschedulable, disruption, .. } = PlanReport::new(answer);
        let is_whole = nodes.len() == answer.built.snapshot.nodes.len();
        let names: BTreeSet<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let removes_selected = |command: &CommandReport| command.nodes.iter().any(|node| names.contains(node.as_str()));
        let commands = disruption.moves.into_iter().filter(removes_selected).collect();
        let (before, after) = cost::before_and_after(answer);
        let cost = if is_whole { before.sum() } else { nodes.iter().filter_map(|node| node.price).sum() };
        Self {
            pools: pools(&nodes),
            extra: shown.columns.titles(&nodes),
            commands,
            nodes,
            pending: unschedulable.into_iter().map(|it| (it.pod, it.message)).collect(),
            cost,
            cost_after: is_whole.then(|| after.sum()),
        }
    }

    /// Returns the number of pods on the nodes.
    pub(in crate::plan) fn pods(&self) -> usize {
        self.nodes.iter().map(|node| node.pods).sum()
    }

    /// Returns CPU and memory of all nodes.
    pub(in crate::plan) fn load(&self) -> (Load, Load) {
        let sum = |of: fn(&NodeLine) -> Load| self.nodes.iter().map(of).fold(Load::NOTHING, Load::plus);
        (sum(|node| node.cpu), sum(|node| node.memory))
    }

    /// Returns the number of nodes that commands remove.
    pub(in crate::plan) fn leaving(&self) -> usize {
        self.commands.iter().map(|command| command.nodes.len()).sum()
    }
}

fn node_line(answer: &PlanAnswer, node: &Node, verdict: Option<&NodeVerdict>) -> NodeLine {
    let label = |key: &str| node.labels.get(key).cloned().unwrap_or_default();
    NodeLine {
        name: node.name.clone(),
        pool: node.pool.clone().unwrap_or_default(),
        kind: node.instance_type.clone().unwrap_or_default(),
        zone: label(label::ZONE),
        capacity_type: label(label::CAPACITY_TYPE),
        price: cost::price(answer, node),
        pods: node.pods.iter().filter(|pod| pod.holder.is_none()).count(),
        cpu: Load::new(node, Resources::CPU, node.usage.as_ref().map(|usage| usage.cpu)),
        memory: Load::new(node, Resources::MEMORY, node.usage.as_ref().map(|usage| usage.memory)),
        state: state(node, verdict),
        age: (node.created.0 > 0).then(|| (answer.built.snapshot.now.0 - node.created.0) / 1000),
        extra: Vec::new(),
    }
}

impl ExtraColumns {
    fn texts(&self, node: &Node) -> Vec<String> {
        let label = |key: &String| node.labels.get(key).cloned().unwrap_or_default();
        let requested = |resource: &String| Load::new(node, resource, None).percent();
        let percent = |resource: &String| requested(resource).map_or_else(|| "-".to_owned(), |part| part.to_string());
        self.resources.iter().map(percent).chain(self.labels.iter().map(label)).collect()
    }

    /// Returns the titles, as those of kubectl, with the width of the longest text.
    fn titles(&self, nodes: &[NodeLine]) -> Vec<(String, usize)> {
        let short = |key: &String| key.rsplit('/').next().unwrap_or(key).to_uppercase();
        let resources = self.resources.iter().map(|resource| format!("{} %", short(resource)));
        let titles = resources.chain(self.labels.iter().map(short));
        let longest = |position: usize| {
            nodes.iter().filter_map(|node| node.extra.get(position)).map(|text| text.chars().count()).max()
        };
        let width = |(position, title): (usize, String)| {
            let width = longest(position).unwrap_or(0).max(title.chars().count());
            (title, width)
        };
        titles.enumerate().map(width).collect()
    }
}

fn state(node: &Node, verdict: Option<&NodeVerdict>) -> &'static str {
    let is_removed = matches!(verdict, Some(NodeVerdict::Remove(_)));
    match (&node.leaving, node.stage) {
        (Some(Leaving::Interrupted { .. }), _) => "interrupted",
        (Some(Leaving::Deleting), _) => "removing",
        _ if is_removed => "to remove",
        (None, Stage::InFlight) => "launching",
        (None, Stage::Registered) => "starting",
        _ if node.taints.iter().any(|taint| NOT_READY.contains(&taint.key.as_str())) => "not ready",
        _ if node.unschedulable => "cordoned",
        (None, Stage::Initialized) => "ready",
    }
}

/// Sorts nodes; equal ones by name.
pub(super) fn sort(nodes: &mut [NodeLine], key: SortKey) {
    let least = |percent: Option<i64>| percent.unwrap_or(i64::MAX);
    match key {
        SortKey::Cost => {
            nodes.sort_by(|one, other| other.price.cmp(&one.price).then_with(|| one.name.cmp(&other.name)));
        }
        SortKey::Cpu => nodes.sort_by_cached_key(|node| (least(node.cpu.percent()), node.name.clone())),
        SortKey::Memory => nodes.sort_by_cached_key(|node| (least(node.memory.percent()), node.name.clone())),
        SortKey::Pods => nodes.sort_by_cached_key(|node| (node.pods, node.name.clone())),
        SortKey::Name => nodes.sort_by(|one, other| one.name.cmp(&other.name)),
    }
}

fn pools(nodes: &[NodeLine]) -> Vec<PoolLine> {
    let mut pools: BTreeMap<&str, PoolLine> = BTreeMap::new();
    for node in nodes {
        let sum = pools.entry(&node.pool).or_insert_with(|| PoolLine {
            name: node.pool.clone(),
            cpu: Load::NOTHING,
            memory: Load::NOTHING,
            ..PoolLine::default()
        });
        sum.nodes += 1;
        sum.pods += node.pods;
        sum.cpu = sum.cpu.plus(node.cpu);
        sum.memory = sum.memory.plus(node.memory);
        sum.price += node.price.unwrap_or(0);
    }
    pools.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, price: Option<i64>, requested: i64) -> NodeLine {
        let cpu = Load { allocatable: 1000, requested, used: None };
        NodeLine { name: name.to_owned(), price, cpu, ..NodeLine::default() }
    }

    fn names(nodes: &[NodeLine]) -> Vec<&str> {
        nodes.iter().map(|node| node.name.as_str()).collect()
    }

    #[test]
    fn sort_puts_expensive_or_empty_nodes_first_and_equal_ones_by_name() {
        let mut nodes =
            [node("c", Some(1), 10), node("b", None, 900), node("a", Some(2), 500), node("d", Some(2), 500)];
        sort(&mut nodes, SortKey::Cost);
        assert_eq!(names(&nodes), ["a", "d", "c", "b"]);
        sort(&mut nodes, SortKey::Cpu);
        assert_eq!(names(&nodes), ["c", "a", "d", "b"]);
        sort(&mut nodes, SortKey::Name);
        assert_eq!(names(&nodes), ["a", "b", "c", "d"]);
    }

    #[test]
    fn load_shows_unknown_parts_as_a_dash() {
        let load = Load { allocatable: 2000, requested: 500, used: Some(250) };
        assert_eq!(load.text(), "25/12");
        assert_eq!(Load { used: None, ..load }.text(), "25/-");
        assert_eq!(Load { allocatable: 0, ..load }.text(), "-/-");
    }

    #[test]
    fn pools_know_the_usage_only_when_every_node_reports_it() {
        let with = |name: &str, used| NodeLine {
            cpu: Load { allocatable: 1000, requested: 500, used },
            ..node(name, Some(3), 0)
        };
        let both = pools(&[with("a", Some(100)), with("b", Some(300))]);
        assert_eq!((both[0].cpu.text().as_str(), both[0].price, both[0].nodes), ("50/20", 6, 2));
        assert_eq!(pools(&[with("a", Some(100)), with("b", None)])[0].cpu.text(), "50/-");
    }
}
