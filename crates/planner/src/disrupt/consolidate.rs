//! Consolidation: cheaper places for pods of candidates.
//!
//! First each node alone: do its pods fit on others? Then (`lower_requests`): would they fit with lowered requests there? Then:
//! does one new node cost less? Do several, for nodes with much waste? The remaining nodes are tried in groups. Some nodes are
//! vacated together for the cheapest fleet of all their pods; where that is not possible, each half of them, and so on. Groups
//! consist of the nodes with the most waste, because these can save the most. The effort is bounded: further groups are tried in later plans, and
//! the verdicts of their nodes name this.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::{BoundPod, CommandReason, Node, NodeVerdict, Resources, rotation, utilization_limit};

use super::disruption_plan::DisruptionPlan;
use super::savings::{Savings, SavingsRules, cost_of};
use super::simulation::Position;

/// Maximum number of nodes that are vacated together.
const LARGEST_GROUP: usize = 32;
/// Maximum number of nodes that a plan vacates in groups, halves counted again; the others follow in later plans.
const MOST_VACATED: usize = 640;
/// Maximum number of nodes that a plan tries to split; the others follow in later plans.
const MOST_SPLITS: usize = 64;
/// Minimum waste of a node to be split, in thousandths.
const WORTH_SPLITTING: i64 = 250;

/// Sorts nodes in the order of their removal: first nodes that are idle by a valid usage report, then by savings for their
/// disruption cost.
pub(super) fn in_order(
    free: &mut [Position],
    node: impl Fn(Position) -> std::sync::Arc<Node>,
    savings: &SavingsRules<'_>,
) {
    free.sort_by_cached_key(|position| {
        let node = node(*position);
        let price = i128::from(savings.price_of(&node).unwrap_or(0));
        let ratio = price * i128::from(BoundPod::COST) / i128::from(cost_of(&node).max(1));
        (
            !(savings.uses_utilization(node.pool.as_deref()) && utilization_limit::is_idle(&node)),
            Reverse(ratio),
            node.name.clone(),
        )
    });
}

/// Nodes whose pods do not fit elsewhere, with the reason.
pub(super) type Remaining = Vec<(Position, NodeVerdict)>;

/// Removes, in order, all nodes whose pods fit on other nodes.
pub(super) fn delete_nodes(draft: &mut DisruptionPlan<'_>, free: &[Position]) -> Remaining {
    let mut left = Remaining::new();
    for position in free {
        match draft.blocker(&[*position], CommandReason::Underutilized) {
            Some(verdict) => draft.set_verdict(*position, verdict),
            None => left.extend(draft.delete_node(*position).err().map(|verdict| (*position, verdict))),
        }
    }
    left
}

/// Replaces remaining nodes where that costs less, and sets the verdict of each node.
pub(super) fn exchange(draft: &mut DisruptionPlan<'_>, savings: &SavingsRules<'_>, mut left: Remaining) {
    let mut search = ConsolidationSearch {
        draft,
        savings,
        wasteful: Vec::new(),
        vacated: 0,
        gone: Positions::new(),
        later: Positions::new(),
    };
    search.one_by_one(&mut left);
    search.split(&mut left);
    let positions: Vec<Position> = left.iter().map(|(position, _)| *position).collect();
    search.go_through(&positions);
    let ConsolidationSearch { gone, later, .. } = search;
    for (position, verdict) in left.into_iter().filter(|(position, _)| !gone.contains(position)) {
        let verdict = match verdict {
            NodeVerdict::Cheapest { .. } | NodeVerdict::NotWorthIt { .. } | NodeVerdict::NoPlace { .. }
                if later.contains(&position) =>
            {
                NodeVerdict::ByTurns { pods: pods_of(draft.node(position)) }
            }
            verdict => verdict,
        };
        draft.set_verdict(position, verdict);
    }
}

/// Reports whether a verdict is more specific than the lack of a cheaper way. Such a node waits for another removal, for
/// kube-scheduler's placement, or for a lower load of other nodes.
fn is_specific(verdict: &NodeVerdict) -> bool {
    matches!(verdict, NodeVerdict::AfterMove { .. } | NodeVerdict::Scattered { .. } | NodeVerdict::AboveCeiling { .. })
}

fn pods_of(node: &Node) -> usize {
    node.pods.iter().filter(|pod| pod.reschedulable).count()
}

type Positions = BTreeSet<Position>;

/// Search with counted effort.
struct ConsolidationSearch<'g, 'a> {
    draft: &'g mut DisruptionPlan<'a>,
    savings: &'g SavingsRules<'g>,
    /// Nodes without a single cheaper replacement, whose waste suggests that several cheaper nodes may replace them.
    wasteful: Vec<Position>,
    vacated: usize,
    gone: Positions,
    /// Nodes that a later plan tries.
    later: Positions,
}

impl ConsolidationSearch<'_, '_> {
    /// Replaces each node for which one cheaper node is enough.
    fn one_by_one(&mut self, left: &mut Remaining) {
        left.retain_mut(|(position, verdict)| {
            let refused = self.replace(*position).err();
            record(verdict, refused)
        });
    }

    /// Searches for one cheaper node; returns the reason if there is none.
    fn replace(&mut self, position: Position) -> Result<(), NodeVerdict> {
        if let Some(verdict) = self.draft.blocker(&[position], CommandReason::Underutilized) {
            return Err(verdict);
        }
        let node = self.draft.node(position);
        let before = self.savings.price_of(node).unwrap_or(0);
        let asked = self.savings.required_savings(&[node], &[]);
        let bound = self.draft.price_bound(&[position]).unwrap_or(i64::MAX);
        if before.saturating_sub(bound) >= asked {
            return self.evaluate(position);
        }
        if waste(node) >= WORTH_SPLITTING && pods_of(node) > 1 {
            self.wasteful.push(position);
        }
        match self.savings.not_worth_it(&[node], Savings { saved: before.saturating_sub(bound), asked }) {
            NodeVerdict::NotWorthIt { .. } if bound >= before => Err(NodeVerdict::Cheapest { pods: pods_of(node) }),
            verdict => Err(verdict),
        }
    }

    /// Searches for the cheapest nodes for the pods of one node.
    fn evaluate(&mut self, position: Position) -> Result<(), NodeVerdict> {
        let cheapest = NodeVerdict::Cheapest { pods: pods_of(self.draft.node(position)) };
        self.draft.exchange(&[position]).map_err(|refused| match refused.verdict {
            NodeVerdict::NotWorthIt { saving, .. } if saving.0 <= 0 => cheapest,
            NodeVerdict::Cheapest { .. } => cheapest,
            verdict => verdict,
        })
    }

    /// Replaces nodes with much waste by several smaller ones. Each node needs a search of its own, so the nodes rotate over
    /// the plans.
    fn split(&mut self, left: &mut Remaining) {
        let wasteful = std::mem::take(&mut self.wasteful);
        let parts = rotation::parts(&vec![1; wasteful.len()], MOST_SPLITS);
        let part = rotation::current_part(self.draft.now(), parts.len());
        let part = parts.get(part).cloned().unwrap_or_default();
        let now: Positions = wasteful[part].iter().copied().collect();
        self.later.extend(wasteful.iter().filter(|position| !now.contains(position)));
        left.retain_mut(|(position, verdict)| {
            if !now.contains(position) {
                return true;
            }
            let blocker = self.draft.blocker(&[*position], CommandReason::Underutilized);
            let refused = blocker.map_or_else(|| self.evaluate(*position), Err).err();
            record(verdict, refused)
        });
    }

    /// Replaces nodes without an individual solution in groups: first the current part of the rotation, then others while
    /// effort is left.
    fn go_through(&mut self, left: &[Position]) {
        let mut wasteful: Vec<Position> = left.to_vec();
        wasteful.sort_by_cached_key(|position| {
            let node = self.draft.node(*position);
            (node.pool.clone(), Reverse(waste(node)), node.name.clone())
        });
        let groups: Vec<&[Position]> = wasteful.chunks(LARGEST_GROUP).filter(|group| self.may_save(group)).collect();
        let efforts: Vec<usize> = groups.iter().map(|group| effort(group.len())).collect();
        let parts = rotation::parts(&efforts, MOST_VACATED);
        let first = parts.get(rotation::current_part(self.draft.now(), parts.len())).map_or(0, |part| part.start);
        for group in groups[first..].iter().chain(&groups[..first]) {
            self.halve(group);
        }
    }

    fn halve(&mut self, group: &[Position]) {
        if group.len() < 2 || !self.may_save(group) {
            return;
        }
        if self.vacated + group.len() > MOST_VACATED {
            self.later.extend(group);
            return;
        }
        if self.exchange(group) {
            return;
        }
        let left: Vec<Position> = group.iter().filter(|position| !self.gone.contains(position)).copied().collect();
        let (one, other) = left.split_at(left.len() / 2);
        self.halve(one);
        self.halve(other);
    }

    /// Exchanges a group, or the parts of it that do not need the rest. Reports whether a smaller group cannot save more: the group
    /// is exchanged, or its cheapest fleet costs too much. The nodes of a smaller group and its fleet would be such a fleet too.
    fn exchange(&mut self, group: &[Position]) -> bool {
        if self.draft.blocker(group, CommandReason::Underutilized).is_some() {
            return false;
        }
        self.vacated += group.len();
        let Err(refused) = self.draft.exchange(group) else {
            self.gone.extend(group);
            return true;
        };
        for part in refused.parts {
            let is_whole = part.iter().all(|position| !self.gone.contains(position));
            if is_whole && self.vacated + part.len() <= MOST_VACATED {
                self.exchange(&part);
            }
        }
        refused.is_too_expensive
    }

    /// Reports whether a group wastes so much that fewer or smaller nodes may be enough: at least half of the price of its
    /// cheapest node.
    fn may_save(&self, group: &[Position]) -> bool {
        let wasted = |position: &Position| {
            let node = self.draft.node(*position);
            let price = self.savings.price_of(node).unwrap_or(0);
            (price.saturating_mul(waste(node)) / 1000, price)
        };
        let (wasted, least) = group
            .iter()
            .map(wasted)
            .fold((0, i64::MAX), |(sum, least), (wasted, price)| (sum + wasted, least.min(price)));
        wasted >= least / 2
    }
}

/// Records the verdict of a node; returns whether the node is still without a solution.
fn record(verdict: &mut NodeVerdict, refused: Option<NodeVerdict>) -> bool {
    let Some(better) = refused else { return false };
    if !is_specific(verdict) {
        *verdict = better;
    }
    true
}

/// Returns the maximum number of vacated nodes when this many are tried together, then each half of them, and so on.
fn effort(nodes: usize) -> usize {
    if nodes < 2 { 0 } else { nodes + effort(nodes / 2) + effort(nodes - nodes / 2) }
}

/// Returns the share of a node's price, in thousandths, for resources that its pods do not request.
fn waste(node: &Node) -> i64 {
    let share = |name: &str| {
        let all = node.allocatable.get(name).max(1);
        node.used.get(name).saturating_mul(1000) / all
    };
    1000 - i64::max(share(Resources::CPU), share(Resources::MEMORY))
}
