//! Which nodes go: those on which nothing runs that would need another place, quiet for long enough, within the budgets.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::{Disruption, Node, NodeVerdict, Plan, PodVerdict, Pool, Removal, RemovalReason, Snapshot, Stage};

/// Adds the removal of empty nodes, and a verdict for every managed node. The dearest go first while a budget lasts.
pub(crate) fn remove_empty(snapshot: &Snapshot, plan: &mut Plan) {
    let expecting = plan.report.pods.iter().filter_map(|verdict| match verdict {
        PodVerdict::Existing { node, .. } => Some(node.clone()),
        _ => None,
    });
    let nominated: BTreeSet<String> = expecting.collect();
    let pools: BTreeMap<&str, &Pool> = snapshot.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
    let mut budgets: BTreeMap<&str, u32> =
        pools.iter().map(|(name, pool)| (*name, pool.disruption.empty_budget)).collect();
    let mut kept: BTreeMap<&str, NodeVerdict> = BTreeMap::new();
    let mut removals = Vec::new();
    for node in by_price(snapshot) {
        let pool = node.pool.as_deref().unwrap_or_default();
        let staying = reason_to_stay(snapshot, node, pools.get(pool).copied(), nominated.contains(&node.name));
        let verdict = match (staying, budgets.get_mut(pool)) {
            (Some(verdict), _) => verdict,
            (None, Some(budget)) if *budget > 0 => {
                *budget -= 1;
                removals.push(removal(node));
                NodeVerdict::Remove(RemovalReason::Empty)
            }
            (None, _) => NodeVerdict::Budget,
        };
        kept.insert(&node.name, verdict);
    }
    plan.removals = removals;
    plan.report.nodes = snapshot
        .nodes
        .iter()
        .filter_map(|node| kept.remove(node.name.as_str()).map(|verdict| (node.name.clone(), verdict)))
        .collect();
}

/// Managed nodes, the dearest first, then by name.
fn by_price(snapshot: &Snapshot) -> Vec<&Node> {
    let mut nodes: Vec<&Node> = snapshot.nodes.iter().map(AsRef::as_ref).filter(|node| node.claim.is_some()).collect();
    nodes.sort_by_key(|node| (Reverse(node.price), node.name.as_str()));
    nodes
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
fn reason_to_stay(snapshot: &Snapshot, node: &Node, pool: Option<&Pool>, nominated: bool) -> Option<NodeVerdict> {
    let in_use = node.pods.iter().filter(|pod| pod.reschedulable).count();
    let promised = node.nominated_until.is_some_and(|until| until > snapshot.now);
    if node.leaving.is_some() {
        Some(NodeVerdict::Leaving)
    } else if node.stage != Stage::Initialized {
        Some(NodeVerdict::NotInitialized)
    } else if in_use > 0 {
        Some(NodeVerdict::InUse { pods: in_use })
    } else if nominated || promised {
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
