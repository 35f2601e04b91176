//! Which nodes go, and what has to be there before they do.
//!
//! The algorithm in prose. Every managed node is judged (`judge`): on its way already, held by something, or free to go for a
//! reason. Each reason has its turn, the surest first; budgets (`purse`) are spent over the whole plan, so a node that goes
//! for one reason leaves less for all others. Nodes on which nothing runs go at once, the dearest first.

mod judge;
mod purse;

use std::cmp::Reverse;
use std::collections::BTreeSet;

use judge::{Free, Judge};
use purse::Purse;

use crate::{Leaver, Move, MoveReason, Node, NodeVerdict, Plan, PodVerdict, Snapshot, WhyMove};

/// Adds what goes to a plan that has placed its pods, and a verdict for every managed node.
pub(crate) fn disrupt(snapshot: &Snapshot, plan: &mut Plan) {
    let expecting = expecting(plan);
    let judge = Judge::new(snapshot, &expecting);
    let managed: Vec<&Node> = snapshot.nodes.iter().map(AsRef::as_ref).filter(|node| node.claim.is_some()).collect();
    let mut purse = Purse::of(snapshot);
    let mut verdicts: Vec<Option<NodeVerdict>> = vec![None; managed.len()];
    let mut idle: Vec<usize> = Vec::new();
    for (position, node) in managed.iter().enumerate() {
        match judge.of(node) {
            Ok(Free::Empty) => idle.push(position),
            Err(verdict) => verdicts[position] = Some(verdict),
        }
    }
    idle.sort_by_key(|position| (Reverse(managed[*position].price), managed[*position].name.as_str()));
    let mut moves = Vec::new();
    for position in idle {
        let node = managed[position];
        verdicts[position] = Some(if purse.spend(node, MoveReason::Empty) {
            moves.push(give_back(node));
            NodeVerdict::Remove(MoveReason::Empty)
        } else {
            NodeVerdict::Budget { reason: MoveReason::Empty }
        });
    }
    let named = managed.iter().zip(verdicts);
    plan.report.nodes = named.filter_map(|(node, verdict)| Some((node.name.clone(), verdict?))).collect();
    plan.moves = moves;
}

/// The nodes that the plan puts pods on.
fn expecting(plan: &Plan) -> BTreeSet<String> {
    let nodes = plan.report.pods.iter().filter_map(|verdict| match verdict {
        PodVerdict::Existing { node, .. } => Some(node.clone()),
        _ => None,
    });
    nodes.collect()
}

fn give_back(node: &Node) -> Move {
    Move {
        reason: MoveReason::Empty,
        nodes: vec![leaver(node)],
        replacements: Vec::new(),
        pods: Vec::new(),
        saving: node.price,
        cost: 0,
        why: WhyMove::NothingRuns,
    }
}

fn leaver(node: &Node) -> Leaver {
    Leaver { node: node.name.clone(), claim: node.claim.clone().unwrap_or_default() }
}
