//! Cheaper places for pods of nodes that might go.
//!
//! First each node by itself: do its pods have room on others? Then (`lowering`): would they, if requests there were lowered? Then:
//! does one new node cost less? What is left goes in groups: some nodes are vacated together and the cheapest fleet for all their pods is looked for, then for each half of
//! them, and so on. Groups are made of those that waste the most, for these have the most to give.

use std::cmp::Reverse;

use crate::{BoundPod, MicroDollars, MoveReason, Node, NodeVerdict, Resources, ceiling};

use super::agenda::{Agenda, Position};
use super::worth::{Scales, cost_of};

/// How many nodes are vacated together at most.
const LARGEST_GROUP: usize = 32;
/// How many nodes a plan vacates in groups, those of halves counted again.
const MOST_VACATED: usize = 1500;
/// How many nodes a plan tries to split.
const MOST_SPLITS: usize = 64;
/// Nodes that waste less, in thousandths, are not split.
const WORTH_SPLITTING: i64 = 250;

/// Nodes in the order in which they should go: those first of which a report that counts says that they are idle, then those that save the most for what they disturb.
pub(super) fn in_order(free: &mut [Position], node: impl Fn(Position) -> std::sync::Arc<Node>, scales: &Scales<'_>) {
    free.sort_by_cached_key(|position| {
        let node = node(*position);
        let price = i128::from(scales.price_of(&node).unwrap_or(0));
        let ratio = price * i128::from(BoundPod::COST) / i128::from(cost_of(&node).max(1));
        (!(scales.heeds_use(node.pool.as_deref()) && ceiling::is_idle(&node)), Reverse(ratio), node.name.clone())
    });
}

/// Nodes that stay for want of room elsewhere, and why.
pub(super) type Left = Vec<(Position, NodeVerdict)>;

/// Gives all nodes back, in order, whose pods have room on others.
pub(super) fn give_back(agenda: &mut Agenda<'_>, free: &[Position]) -> Left {
    let mut left = Left::new();
    for position in free {
        match agenda.hindrance(&[*position], MoveReason::Underutilized) {
            Some(verdict) => agenda.tell(*position, verdict),
            None => left.extend(agenda.give_back(*position).err().map(|verdict| (*position, verdict))),
        }
    }
    left
}

/// Replaces what is left where that costs less, and tells each node why it goes or stays.
pub(super) fn exchange(agenda: &mut Agenda<'_>, scales: &Scales<'_>, mut left: Left) {
    let mut search = Search { agenda, scales, splits: 0, vacated: 0 };
    left.retain_mut(|(position, verdict)| match search.replace(*position) {
        Ok(()) => false,
        Err(better) => {
            if !says_more(verdict) {
                *verdict = better;
            }
            true
        }
    });
    let positions: Vec<Position> = left.iter().map(|(position, _)| *position).collect();
    let gone = search.go_through(&positions);
    for (position, verdict) in left.into_iter().filter(|(position, _)| !gone.contains(position)) {
        agenda.tell(position, verdict);
    }
}

/// Whether it says more than that there is no other way: that a node can go once another has gone, or could if kube-scheduler did as is
/// planned, or if others were less busy.
fn says_more(verdict: &NodeVerdict) -> bool {
    matches!(verdict, NodeVerdict::AfterMove { .. } | NodeVerdict::Scattered { .. } | NodeVerdict::AboveCeiling { .. })
}

/// What costs effort, counted.
struct Search<'g, 'a> {
    agenda: &'g mut Agenda<'a>,
    scales: &'g Scales<'g>,
    splits: usize,
    vacated: usize,
}

impl Search<'_, '_> {
    /// Looks for one cheaper node, or several; why there are none.
    fn replace(&mut self, position: Position) -> Result<(), NodeVerdict> {
        if let Some(verdict) = self.agenda.hindrance(&[position], MoveReason::Underutilized) {
            return Err(verdict);
        }
        let node = self.agenda.node(position);
        let before = self.scales.price_of(node).unwrap_or(0);
        let asked = self.scales.asked(&[node], &[]);
        let cheapest = NodeVerdict::Cheapest { pods: node.pods.iter().filter(|pod| pod.reschedulable).count() };
        let glance = self.agenda.glance(&[position]).unwrap_or(i64::MAX);
        if before.saturating_sub(glance) < asked && !self.may_split(node) {
            if glance >= before {
                return Err(cheapest);
            }
            let (saving, asked) = (MicroDollars(before - glance), MicroDollars(asked));
            return Err(NodeVerdict::NotWorthIt { saving, asked });
        }
        self.agenda.exchange(&[position]).map_err(|verdict| match verdict {
            NodeVerdict::NotWorthIt { saving, .. } if saving.0 <= 0 => cheapest,
            NodeVerdict::Cheapest { .. } => cheapest,
            verdict => verdict,
        })
    }

    /// Whether a node wastes so much that several smaller ones might cost less; counted, for that takes a search.
    fn may_split(&mut self, node: &Node) -> bool {
        let may = self.splits < MOST_SPLITS && waste(node) >= WORTH_SPLITTING;
        self.splits += usize::from(may);
        may
    }

    /// Those that went, of nodes that found nothing by themselves.
    fn go_through(&mut self, left: &[Position]) -> Vec<Position> {
        let mut wasteful: Vec<Position> = left.to_vec();
        wasteful.sort_by_cached_key(|position| {
            let node = self.agenda.node(*position);
            (node.pool.clone(), Reverse(waste(node)), node.name.clone())
        });
        let mut gone = Vec::new();
        for group in wasteful.chunks(LARGEST_GROUP) {
            self.halve(group, &mut gone);
        }
        gone
    }

    fn halve(&mut self, group: &[Position], gone: &mut Vec<Position>) {
        if group.len() < 2 || self.vacated + group.len() > MOST_VACATED || !self.promises(group) {
            return;
        }
        if self.agenda.hindrance(group, MoveReason::Underutilized).is_none() {
            self.vacated += group.len();
            if self.agenda.exchange(group).is_ok() {
                gone.extend(group);
                return;
            }
        }
        let (one, other) = group.split_at(group.len() / 2);
        self.halve(one, gone);
        self.halve(other, gone);
    }

    /// Whether a group wastes so much that fewer or smaller nodes might do: half of the price of one of them, at least.
    fn promises(&self, group: &[Position]) -> bool {
        let wasted = |position: &Position| {
            let node = self.agenda.node(*position);
            let price = self.scales.price_of(node).unwrap_or(0);
            (price.saturating_mul(waste(node)) / 1000, price)
        };
        let (wasted, least) = group
            .iter()
            .map(wasted)
            .fold((0, i64::MAX), |(sum, least), (wasted, price)| (sum + wasted, least.min(price)));
        wasted >= least / 2
    }
}

/// How much of a node's price, in thousandths, is for what its pods do not ask for.
fn waste(node: &Node) -> i64 {
    let share = |name: &str| {
        let all = node.allocatable.get(name).max(1);
        node.used.get(name).saturating_mul(1000) / all
    };
    1000 - i64::max(share(Resources::CPU), share(Resources::MEMORY))
}
