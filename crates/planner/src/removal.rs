//! Which nodes go: those on which nothing runs that would need another place, quiet for long enough, within the budgets.

use std::cell::LazyCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::{Disruption, Node, NodeVerdict, Plan, PodVerdict, Pool, Removal, RemovalReason, Snapshot, Stage};

/// Adds the removal of empty nodes, and a verdict for every managed node. The dearest go first while a budget lasts.
pub(crate) fn remove_empty(snapshot: &Snapshot, plan: &mut Plan) {
    let expecting = LazyCell::new(|| expecting(plan));
    let pools: BTreeMap<&str, &Pool> = snapshot.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
    let mut budgets: BTreeMap<&str, u32> =
        pools.iter().map(|(name, pool)| (*name, pool.disruption.empty_budget)).collect();
    let managed: Vec<&Node> = snapshot.nodes.iter().map(AsRef::as_ref).filter(|node| node.claim.is_some()).collect();
    let is_nominated = |node: &Node| expecting.contains(node.name.as_str());
    let staying = managed.iter().map(|node| reason_to_stay(snapshot, node, pool_of(node, &pools), is_nominated));
    let mut verdicts: Vec<Option<NodeVerdict>> = staying.collect();
    let mut idle: Vec<usize> = (0..managed.len()).filter(|position| verdicts[*position].is_none()).collect();
    idle.sort_by_key(|position| (Reverse(managed[*position].price), managed[*position].name.as_str()));
    let mut removals = Vec::new();
    for position in idle {
        let node = managed[position];
        let budget = node.pool.as_deref().and_then(|pool| budgets.get_mut(pool)).filter(|budget| **budget > 0);
        verdicts[position] = Some(match budget {
            Some(budget) => {
                *budget -= 1;
                removals.push(removal(node));
                NodeVerdict::Remove(RemovalReason::Empty)
            }
            None => NodeVerdict::Budget,
        });
    }
    let named = managed.iter().zip(verdicts);
    plan.report.nodes = named.filter_map(|(node, verdict)| Some((node.name.clone(), verdict?))).collect();
    plan.removals = removals;
}

/// The nodes that the plan puts pods on.
fn expecting(plan: &Plan) -> BTreeSet<&str> {
    let nodes = plan.report.pods.iter().filter_map(|verdict| match verdict {
        PodVerdict::Existing { node, .. } => Some(node.as_str()),
        _ => None,
    });
    nodes.collect()
}

fn pool_of<'a>(node: &Node, pools: &BTreeMap<&str, &'a Pool>) -> Option<&'a Pool> {
    pools.get(node.pool.as_deref()?).copied()
}

fn removal(node: &Node) -> Removal {
    Removal {
        node: node.name.clone(),
        claim: node.claim.clone().unwrap_or_default(),
        reason: RemovalReason::Empty,
        saving: node.price,
    }
}

/// The first reason not to remove a node, budgets aside.
fn reason_to_stay(
    snapshot: &Snapshot,
    node: &Node,
    pool: Option<&Pool>,
    is_nominated: impl Fn(&Node) -> bool,
) -> Option<NodeVerdict> {
    let in_use = node.pods.iter().filter(|pod| pod.reschedulable).count();
    let promised = node.nominated_until.is_some_and(|until| until > snapshot.now);
    if node.leaving.is_some() {
        Some(NodeVerdict::Leaving)
    } else if node.stage != Stage::Initialized {
        Some(NodeVerdict::NotInitialized)
    } else if in_use > 0 {
        Some(NodeVerdict::InUse { pods: in_use })
    } else if promised || is_nominated(node) {
        Some(NodeVerdict::Nominated)
    } else if node.do_not_disrupt || node.pods.iter().any(|pod| pod.do_not_disrupt) {
        Some(NodeVerdict::DoNotDisrupt)
    } else {
        match pool {
            None => Some(NodeVerdict::NoPool),
            Some(pool) if pool.replicas.is_some() => Some(NodeVerdict::Static),
            Some(pool) => still_quiet(snapshot, node, &pool.disruption),
        }
    }
}

/// Whether the pool wants to wait, and for how long.
fn still_quiet(snapshot: &Snapshot, node: &Node, disruption: &Disruption) -> Option<NodeVerdict> {
    let Some(after) = disruption.consolidate_after else { return Some(NodeVerdict::ConsolidationDisabled) };
    let Some(since) = node.quiet_since else { return Some(NodeVerdict::NotInitialized) };
    let remaining = since.0.saturating_add(after).saturating_sub(snapshot.now.0);
    (remaining > 0).then_some(NodeVerdict::Quiet { remaining })
}
